//! Draws run tokens (docs/design/fence.md#the-token).

use std::sync::atomic::{AtomicI64, Ordering};

use chrono::{DateTime, Utc};

use super::RunToken;

/// The latest time of a token in nanoseconds, in March 2262. It is 11 days before the largest number of 64 bits, which leaves room for
/// tokens of later times, as a test may set its clock to.
const LATEST: i64 = i64::MAX - 1_000_000_000_000_000;

/// The source of one broker's run tokens. Each token is larger than the last, whatever the clock does.
#[derive(Debug)]
pub(crate) struct TokenSource {
    last: AtomicI64,
    nonce: i64,
}

impl TokenSource {
    /// A source with a nonce of its own, so that two brokers draw no equal tokens in one microsecond.
    pub(crate) fn new() -> Self {
        Self { last: AtomicI64::new(0), nonce: fastrand::i64(0..1000) }
    }

    /// Draws a token that was never drawn before.
    pub(crate) fn draw(&self, now: DateTime<Utc>) -> RunToken {
        let now = now.timestamp_nanos_opt().unwrap_or(if now.timestamp() < 0 { 0 } else { LATEST }).clamp(0, LATEST);
        let next = |last| next_token(last, now, self.nonce);
        let (Ok(last) | Err(last)) =
            self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        RunToken(next(last))
    }
}

/// Microseconds from the time, never one that was used before, and the nonce in the last three digits.
fn next_token(last: i64, now: i64, nonce: i64) -> i64 {
    let floor = |ns: i64| ns - ns.rem_euclid(1000);
    floor(now).max(floor(last).saturating_add(1000)) + nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_grow_whatever_the_clock_does_and_have_nineteen_digits() {
        let cases = [
            // last, now, expected
            (0, 1_700_000_000_123_456_789, 1_700_000_000_123_456_007),
            (1_700_000_000_123_456_007, 1_700_000_000_123_456_789, 1_700_000_000_123_457_007),
            (1_700_000_000_123_457_007, 5, 1_700_000_000_123_458_007),
        ];
        for (last, now, expected) in cases {
            assert_eq!(next_token(last, now, 7), expected);
        }
        let tokens = TokenSource::new();
        let now = DateTime::from_timestamp(1_790_000_000, 123_456_789).unwrap();
        let first = tokens.draw(now).0;
        assert_eq!(first / 1_000, 1_790_000_000_123_456);
        let second = tokens.draw(now - chrono::TimeDelta::hours(1));
        assert_eq!(second.0, first + 1_000);
        assert_eq!(second.to_string().len(), 19);
    }

    #[test]
    fn tokens_grow_at_the_ends_of_time() {
        let tokens = TokenSource { last: AtomicI64::new(0), nonce: 999 };
        let drawn = [DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC, DateTime::<Utc>::MAX_UTC];
        let [early, late, later] = drawn.map(|now| tokens.draw(now).0);
        assert!(0 < early && early < late && later == late + 1_000, "{early} {late} {later}");
    }
}
