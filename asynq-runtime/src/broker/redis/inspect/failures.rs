//! Reads the last failures of a task: the ring buffer that `task.lua` writes, and the error that a Go worker left in
//! the message.

use chrono::DateTime;

use crate::{broker::Failure, task::TaskMessage};

/// Fields of the ring buffer, which is the number of failures that are kept.
pub(super) const MOST_FAILURES: usize = 10;

/// Reads a field: number, milliseconds, text.
pub(super) fn read(field: &str) -> Option<Failure> {
    let mut parts = field.splitn(3, ' ');
    let (number, at, error) = (parts.next()?, parts.next()?, parts.next()?);
    Some(Failure::new(number.parse().ok()?, DateTime::from_timestamp_millis(at.parse().ok()?)?, error))
}

/// Returns the failures of the ring buffer, newest first. An error of the message that is later than all of them was
/// written by a Go worker, which keeps only the last one.
pub(super) fn newest_first(mut ring: Vec<Failure>, message: Option<&TaskMessage>) -> Vec<Failure> {
    ring.sort_by_key(|failure| std::cmp::Reverse(failure.number));
    if let Some(message) = message.filter(|message| !message.error_msg.is_empty())
        && let Some(at) = DateTime::from_timestamp(message.last_failed_at, 0).filter(|at| at.timestamp() > 0)
    {
        Failure::new(message.spent_retries(), at, message.error_msg.clone()).put_before(&mut ring);
    }
    ring.truncate(MOST_FAILURES);
    ring
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(number: u32, at: i64, error: &str) -> Failure {
        Failure::new(number, DateTime::from_timestamp_millis(at).unwrap(), error)
    }

    #[test]
    fn a_field_is_a_number_a_time_and_a_text_with_spaces() {
        assert_eq!(read("12 1700000000123 no such file"), Some(failure(12, 1_700_000_000_123, "no such file")));
        assert_eq!(read("1 0 "), Some(failure(1, 0, "")));
        for rubbish in ["", "1", "1 2", "x 2 y", "1 y z"] {
            assert_eq!(read(rubbish), None, "{rubbish}");
        }
    }

    #[test]
    fn an_error_that_go_left_comes_first_when_it_is_later() {
        let ring = || vec![failure(1, 1_000_000, "a"), failure(3, 3_000_000, "c"), failure(2, 2_000_000, "b")];
        let ours = [failure(3, 3_000_000, "c"), failure(2, 2_000_000, "b"), failure(1, 1_000_000, "a")];
        assert_eq!(newest_first(ring(), None), ours);
        for (error, at, retried, added) in [
            ("", 9000, 9, None),
            ("c", 3000, 3, None),
            ("go", 9000, 5, Some(failure(5, 9_000_000, "go"))),
            ("go", 9000, 3, Some(failure(4, 9_000_000, "go"))),
        ] {
            let message =
                TaskMessage { error_msg: error.into(), last_failed_at: at, retried, ..TaskMessage::default() };
            let expected: Vec<Failure> = added.into_iter().chain(ours.clone()).collect();
            assert_eq!(newest_first(ring(), Some(&message)), expected, "{error} {at}");
        }
        let go_alone = TaskMessage { error_msg: "go".into(), last_failed_at: 7, ..TaskMessage::default() };
        assert_eq!(newest_first(Vec::new(), Some(&go_alone)), [failure(1, 7000, "go")]);
    }
}
