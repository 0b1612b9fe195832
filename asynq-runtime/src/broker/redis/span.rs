//! Spans of time as scripts and commands read them.

use std::time::Duration;

/// Returns whole milliseconds, rounded up so that nothing is early, and no more than 292 years: asynqmon cannot show a page with a
/// task that is due after the year 9999, and a Lua number holds these exactly.
pub(super) fn milliseconds(span: Duration) -> u64 {
    const MOST: u128 = asynq_grammar::duration::MAX.as_millis();
    u64::try_from(span.as_nanos().div_ceil(1_000_000).min(MOST)).unwrap_or(u64::MAX)
}

/// Returns whole seconds, rounded up.
pub(super) fn whole_seconds(span: Duration) -> u64 {
    milliseconds(span).div_ceil(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_rounded_up_to_the_millisecond_and_none_is_due_after_the_year_9999() {
        let cases = [
            (Duration::ZERO, 0, 0),
            (Duration::from_nanos(1), 1, 1),
            (Duration::from_millis(1500), 1500, 2),
            (Duration::from_secs(60), 60_000, 60),
            (Duration::MAX, 9_223_372_036_000, 9_223_372_036),
        ];
        for (span, ms, s) in cases {
            assert_eq!((milliseconds(span), whole_seconds(span)), (ms, s), "{span:?}");
        }
    }
}
