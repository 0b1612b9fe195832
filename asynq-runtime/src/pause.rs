//! Pauses before something that failed is tried again, and between its lines in the log; a sleep that code of the program cannot keep
//! from ending.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// asynq's limit: one line per 3 s and component.
const BETWEEN_LINES: Duration = Duration::from_secs(3);

/// Lines about something that may last for ever, or happens thousands of times in a second.
#[derive(Debug, Default)]
pub(crate) struct SeldomLines {
    last: Mutex<Option<Instant>>,
}

impl SeldomLines {
    /// Returns whether a line is due, and counts it as written.
    pub(crate) fn is_due(&self) -> bool {
        let mut last = self.last.lock();
        let is_due = last.is_none_or(|at| at.elapsed() >= BETWEEN_LINES);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

/// Returns the pause after so many failures before this one: `first`, doubled with each of them, at most `longest`.
pub(crate) fn doubled(first: Duration, before: u32, longest: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(before)).min(longest)
}

/// Returns a random time from the upper half of `pause`, because many programs fail at the same moment.
pub(crate) fn spread(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + 0.5 * fastrand::f64())
}

/// Returns a sleep for a task that polls code of the program before it: that code may use up tokio's budget in each poll, and a plain
/// `sleep` is never over without budget.
pub(crate) fn beside_jobs(time: Duration) -> impl Future<Output = ()> {
    tokio::task::coop::unconstrained(tokio::time::sleep(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_up_to_the_longest() {
        let (first, longest) = (Duration::from_millis(20), Duration::from_secs(1));
        let pauses: Vec<_> = (0..8).map(|before| doubled(first, before, longest).as_millis()).collect();
        assert_eq!(pauses, [20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert_eq!(doubled(first, u32::MAX, longest), longest);
        assert_eq!(doubled(Duration::MAX, u32::MAX, Duration::MAX), Duration::MAX);
        assert_eq!(doubled(longest, 0, first), first, "also the first one is at most the longest");
    }

    #[test]
    fn a_line_is_due_at_first_and_again_after_a_pause() {
        let lines = SeldomLines::default();
        assert_eq!([lines.is_due(), lines.is_due()], [true, false]);
        *lines.last.lock() = Instant::now().checked_sub(BETWEEN_LINES);
        assert!(lines.is_due());
    }

    #[test]
    fn pauses_are_spread_over_the_upper_half() {
        let second = Duration::from_secs(1);
        let mut tenths = [0; 10];
        for _ in 0..1_000 {
            let pause = spread(second).as_secs_f64();
            assert!((0.5..=1.0).contains(&pause), "{pause}");
            tenths[((pause - 0.5) * 20.0).min(9.0) as usize] += 1;
        }
        // Each tenth of the half gets 100 on average; chance alone does not leave one below 30.
        assert!(tenths.iter().all(|n| *n > 30), "{tenths:?}");
    }
}
