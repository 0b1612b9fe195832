//! When an attempt must end, by the broker's clock.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::{clock::later, job::JobOptions, task::TaskMessage};

/// When an attempt must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AttemptDeadline {
    pub(crate) at: DateTime<Utc>,
    /// How long the attempt may take.
    pub(crate) remaining: Duration,
    /// Whether this is the task's own deadline, after which no attempt may run at all.
    pub(crate) is_final: bool,
}

impl AttemptDeadline {
    /// Returns the sooner of now + timeout and the task's deadline. With neither, which no client should write, an attempt has
    /// asynq's 30 minutes.
    pub(crate) fn of(message: &TaskMessage, now: DateTime<Utc>) -> Self {
        let timeout = u64::try_from(message.timeout).ok().filter(|&seconds| seconds > 0).map(Duration::from_secs);
        let deadline = (message.deadline != 0).then(|| instant(message.deadline));
        let until = |at: DateTime<Utc>| (at - now).to_std().unwrap_or(Duration::ZERO);
        match (timeout, deadline) {
            (Some(timeout), Some(deadline)) if until(deadline) > timeout => Self::after(timeout, now),
            (_, Some(deadline)) => Self { at: deadline, remaining: until(deadline), is_final: true },
            (Some(timeout), None) => Self::after(timeout, now),
            (None, None) => Self::after(JobOptions::DEFAULT_TIMEOUT, now),
        }
    }

    /// Returns whether the deadline has passed already.
    pub(crate) fn is_over(&self) -> bool {
        self.remaining.is_zero()
    }

    fn after(timeout: Duration, now: DateTime<Utc>) -> Self {
        Self { at: later(now, timeout), remaining: timeout, is_final: false }
    }
}

fn instant(seconds: i64) -> DateTime<Utc> {
    let out_of_range = if seconds < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC };
    DateTime::from_timestamp(seconds, 0).unwrap_or(out_of_range)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    #[test]
    fn the_sooner_of_timeout_and_deadline_ends_an_attempt() {
        let table = [
            // timeout, deadline - now   ends after, for good
            (60, None, 60, false),
            (60, Some(30), 30, true),
            (60, Some(90), 60, false),
            (60, Some(60), 60, true),
            (0, Some(90), 90, true),
            (0, None, 1800, false),
            (60, Some(0), 0, true),
            (60, Some(-5), 0, true),
            (-1, Some(7), 7, true),
            (i64::MAX, None, i64::MAX as u64, false),
            (0, Some(i64::MAX - NOW), (DateTime::<Utc>::MAX_UTC.timestamp() - NOW) as u64, true),
        ];
        for (timeout, deadline, seconds, is_final) in table {
            let message = TaskMessage { timeout, deadline: deadline.map_or(0, |d| NOW + d), ..TaskMessage::default() };
            let ends = AttemptDeadline::of(&message, instant(NOW));
            let case = format!("{timeout} {deadline:?}");
            assert_eq!((ends.remaining.as_secs(), ends.is_final), (seconds, is_final), "{case}");
            assert_eq!(ends.is_over(), seconds == 0, "{case}");
        }
    }
}
