//! The parameters `timeout` and `connect_timeout` that the URL of every broker takes.

use std::{ops::RangeInclusive, time::Duration};

/// A shorter time-out fails on an ordinary pause of the machine, a longer one hides that nothing answers.
const RANGE: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(60);

/// Reads a time-out, or says what one looks like.
pub(super) fn parse(text: &str) -> Result<Duration, &'static str> {
    let timeout = asynq_grammar::duration::parse(text).ok().filter(|timeout| RANGE.contains(timeout));
    timeout.ok_or("timeout and connect_timeout in a URL are times from 50ms to 1m: ?timeout=3s&connect_timeout=5s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_out_is_long_enough_to_work_and_short_enough_to_end() {
        assert_eq!(parse("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(parse("1m"), Ok(Duration::from_secs(60)));
        for wrong in ["", "3", "0s", "49ms", "61s", "-1s", "soon"] {
            assert!(parse(wrong).is_err_and(|message| message.contains("?timeout=3s")), "{wrong}");
        }
    }
}
