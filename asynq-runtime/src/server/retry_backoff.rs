//! Handles errors of the broker in a component: logs them now and then, and pauses ever longer.

use std::time::{Duration, Instant};

use crate::{
    broker::BrokerError,
    pause::{SeldomLines, doubled, spread},
};

/// The first pause of a component whose broker fails.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// A wait that ends sooner than this counts as ended at once.
const AT_ONCE: Duration = Duration::from_millis(2);
/// So many waits in a row may end at once without work, before pauses begin.
const SPURIOUS_WAKEUPS: u32 = 8;
/// Shortest and longest pause after further waits that end at once.
const WAKEUP_PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(250));

/// The back-off of one component while the broker fails.
#[derive(Debug)]
pub(crate) struct RetryBackoff {
    component: &'static str,
    longest: Duration,
    failures: u32,
    lines: SeldomLines,
    /// Whether the last line says that the broker failed.
    is_failure_logged: bool,
}

impl RetryBackoff {
    /// Creates a back-off whose pauses grow from 100 ms to `longest`.
    pub(crate) fn new(component: &'static str, longest: Duration) -> Self {
        Self { component, longest, failures: 0, lines: SeldomLines::default(), is_failure_logged: false }
    }

    /// Notes and logs that the broker failed. Returns how long to wait before the next try.
    pub(crate) fn on_error(&mut self, error: &BrokerError) -> Duration {
        self.on_error_at(error, Instant::now())
    }

    fn on_error_at(&mut self, error: &BrokerError, now: Instant) -> Duration {
        if self.lines.is_due_at(now) {
            self.is_failure_logged = true;
            log!(error, component = self.component, "the broker failed, will try again: {error}");
        }
        crate::metrics::broker_failed(self.component, error.kind());
        let pause = doubled(FIRST_PAUSE, self.failures, self.longest);
        self.failures = self.failures.saturating_add(1);
        spread(pause)
    }

    /// Notes that the broker answered: the next pause is the first again. Logs that only after a line about a failure: a broker of
    /// which a part is away may fail and answer several times a second.
    pub(crate) fn on_success(&mut self) {
        self.failures = 0;
        if std::mem::take(&mut self.is_failure_logged) {
            self.lines.restart();
            log!(info, component = self.component, "the broker answers again");
        }
    }

    /// Notes how a pass of the component ended. Returns how long to wait before the next one: as long as the pass says, or ever longer
    /// while the broker fails.
    pub(crate) fn after(&mut self, pass: Result<Duration, BrokerError>) -> Duration {
        pass.inspect(|_| self.on_success()).unwrap_or_else(|error| self.on_error(&error))
    }
}

/// Keeps a wait that ends without work again and again from becoming a busy loop.
#[derive(Debug, Default)]
pub(crate) struct SpuriousWakeups {
    seen: u32,
}

impl SpuriousWakeups {
    /// Notes that there was work, so that the wake-up was justified.
    pub(crate) fn on_work(&mut self) {
        self.seen = 0;
    }

    /// Notes that there was no work after a wait of `waited`. Returns how long to pause, usually not at all.
    pub(crate) fn on_nothing(&mut self, waited: Duration) -> Duration {
        if waited > AT_ONCE {
            self.on_work();
            return Duration::ZERO;
        }
        let (first, longest) = WAKEUP_PAUSES;
        let pause = self.seen.checked_sub(SPURIOUS_WAKEUPS).map(|before| spread(doubled(first, before, longest)));
        self.seen = self.seen.saturating_add(1);
        pause.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::BrokerErrorKind;

    #[test]
    fn pauses_grow_while_the_broker_fails_and_start_over_when_it_answers() {
        let mut retry_backoff = RetryBackoff::new("test", Duration::from_secs(1));
        let error = BrokerError::new(BrokerErrorKind::Unavailable, "down");
        assert!(retry_backoff.on_error(&error) <= Duration::from_millis(100));
        for _ in 0..5 {
            retry_backoff.on_error(&error);
        }
        assert!(retry_backoff.on_error(&error) >= Duration::from_millis(500));
        retry_backoff.on_success();
        assert!(retry_backoff.on_error(&error) <= Duration::from_millis(100));
    }

    #[test]
    fn the_line_of_a_failure_names_its_cause() {
        let log = asynq_test_support::Log::keep();
        let refused = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "Connection refused");
        let error = BrokerError::with_source(BrokerErrorKind::Unavailable, "Redis cannot be reached", refused);
        RetryBackoff::new("test", Duration::from_secs(1)).on_error(&error);
        assert_eq!(log.with("Redis cannot be reached: Connection refused").len(), 1, "{:?}", log.with(""));
    }

    #[test]
    fn a_broker_that_fails_and_answers_in_turn_has_no_more_lines_about_answers_than_about_failures() {
        let (log, mut retry_backoff) =
            (asynq_test_support::Log::keep(), RetryBackoff::new("test", Duration::from_secs(1)));
        let error = BrokerError::new(BrokerErrorKind::Unavailable, "down");
        for _ in 0..10 {
            retry_backoff.on_error(&error);
            retry_backoff.on_success();
        }
        let [failures, answers] = ["the broker failed", "the broker answers again"].map(|part| log.with(part).len());
        assert!(failures == answers && (1..10).contains(&answers), "{:?}", log.with(""));
    }

    #[test]
    fn the_lines_of_an_outage_become_fewer_and_those_of_the_next_one_begin_anew() {
        let (log, mut retry_backoff) =
            (asynq_test_support::Log::keep(), RetryBackoff::new("test", Duration::from_secs(1)));
        let error = BrokerError::new(BrokerErrorKind::Unavailable, "down");
        let begun = Instant::now();
        let mut lines_after = |seconds: std::ops::Range<u64>, is_over: bool| {
            for second in seconds {
                retry_backoff.on_error_at(&error, begun + Duration::from_secs(second));
            }
            if is_over {
                retry_backoff.on_success();
            }
            log.with("the broker failed").len()
        };
        assert_eq!(lines_after(0..60, true), 5, "after 0, 3, 9, 21 and 45 seconds");
        assert_eq!(lines_after(64..65, false), 6);
    }

    #[test]
    fn only_repeated_wakeups_without_work_are_slowed_down() {
        let mut wakeups = SpuriousWakeups::default();
        assert!((0..SPURIOUS_WAKEUPS).all(|_| wakeups.on_nothing(Duration::ZERO).is_zero()));
        assert!(!wakeups.on_nothing(Duration::ZERO).is_zero());
        assert!(wakeups.on_nothing(Duration::from_millis(5)).is_zero());
        assert!(wakeups.on_nothing(Duration::ZERO).is_zero());
    }
}
