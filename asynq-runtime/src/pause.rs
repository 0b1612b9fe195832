//! Pauses before something that failed is tried again, and between its lines in the log; a sleep that code of the program cannot keep
//! from ending.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The shortest time between two lines of a component, which is asynq's, and the longest: an outage of an hour is sixty lines then.
const BETWEEN_LINES: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(60));

/// Lines about something that may last for ever, or happens thousands of times in a second: ever fewer while it lasts.
#[derive(Debug, Default)]
pub struct SeldomLines {
    last: Mutex<Option<Line>>,
}

#[derive(Debug)]
struct Line {
    at: Instant,
    /// How long no other line follows.
    quiet: Duration,
}

impl SeldomLines {
    /// Returns whether a line is due, and counts it as written.
    pub fn is_due(&self) -> bool {
        self.is_due_at(Instant::now())
    }

    /// As `is_due` at the time `now`.
    pub(crate) fn is_due_at(&self, now: Instant) -> bool {
        let (first, longest) = BETWEEN_LINES;
        let mut last = self.last.lock();
        let quiet = match &*last {
            None => first,
            Some(Line { at, quiet }) => match now.saturating_duration_since(*at) {
                passed if passed < *quiet => return false,
                // It had ended, and begins anew.
                passed if passed >= *quiet * 2 => first,
                _ => (*quiet * 2).min(longest),
            },
        };
        *last = Some(Line { at: now, quiet });
        true
    }

    /// Notes that what the lines are about has ended: when it begins anew, a line is due as early as at first.
    pub(crate) fn restart(&self) {
        if let Some(line) = &mut *self.last.lock() {
            line.quiet = BETWEEN_LINES.0;
        }
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

    /// Returns the seconds at which a line is due if something fails in each of `seconds`.
    fn lines_of(lines: &SeldomLines, begun: Instant, seconds: std::ops::Range<u64>) -> Vec<u64> {
        seconds.filter(|second| lines.is_due_at(begun + Duration::from_secs(*second))).collect()
    }

    #[test]
    fn lines_become_ever_fewer_while_something_lasts() {
        let (lines, begun) = (SeldomLines::default(), Instant::now());
        assert_eq!(lines_of(&lines, begun, 0..300), [0, 3, 9, 21, 45, 93, 153, 213, 273]);
        // As often as at first once it had ended, whether that was noted or is seen from the time that passed.
        lines.restart();
        assert_eq!(lines_of(&lines, begun, 301..320), [301, 304, 310], "{lines:?}");
        assert_eq!(lines_of(&lines, begun, 600..610), [600, 603, 609], "{lines:?}");
    }

    #[test]
    fn only_the_first_of_many_failures_at_once_is_due() {
        let lines = SeldomLines::default();
        assert_eq!([lines.is_due(), lines.is_due()], [true, false]);
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
