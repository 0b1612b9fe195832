//! The clock that a broker is given, and one that a test sets.

use std::{fmt, sync::Arc, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;

/// A source of the current instant.
///
/// Brokers keep their own time: Redis scripts use `TIME`, SQLite the machine's clock. A clock that a broker is given replaces
/// that, as in tests with a [`ManualClock`].
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Returns the current instant.
    fn now(&self) -> DateTime<Utc>;
}

/// The machine's clock.
#[cfg(feature = "sqlite")]
#[derive(Debug)]
pub(crate) struct SystemClock;

#[cfg(feature = "sqlite")]
impl Clock for SystemClock {
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }
}

/// Returns the instant that is `span` after `at`, or chrono's last one if that is beyond it.
pub(crate) fn later(at: DateTime<Utc>, span: Duration) -> DateTime<Utc> {
    let span = TimeDelta::from_std(span).unwrap_or(TimeDelta::MAX);
    at.checked_add_signed(span).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// A clock that stands still until it is moved; clones share one time.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Mutex<DateTime<Utc>>>);

// A panic cannot leave a time half changed.
impl std::panic::UnwindSafe for ManualClock {}
impl std::panic::RefUnwindSafe for ManualClock {}

impl ManualClock {
    /// Creates a clock that shows `now`.
    pub fn new(now: DateTime<Utc>) -> Self {
        Self(Arc::new(Mutex::new(now)))
    }

    /// Moves the clock forward by `by`; beyond chrono's last instant it stays there.
    pub fn advance(&self, by: Duration) {
        let mut now = self.0.lock();
        *now = later(*now, by);
    }

    /// Sets the clock, forward or back.
    pub fn set(&self, now: DateTime<Utc>) {
        *self.0.lock() = now;
    }
}

impl Default for ManualClock {
    /// Creates a clock that shows the system's current time.
    fn default() -> Self {
        Self::new(Utc::now())
    }
}

impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        *self.0.lock()
    }
}

/// Returns the time since the machine started, with the time in which it slept. This clock cannot be set.
pub(crate) fn since_boot() -> Duration {
    use rustix::time::{ClockId, clock_gettime};

    // On Linux alone, the ordinary clock of this kind does not count the time in which the machine sleeps.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_of_a_manual_clock_share_their_time() {
        let clock = ManualClock::default();
        let before = clock.now();
        let other = clock.clone();
        other.advance(Duration::from_secs(90));
        assert_eq!((clock.now() - before).num_seconds(), 90);
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), DateTime::<Utc>::MAX_UTC);
    }

    #[test]
    fn the_time_since_the_start_of_the_machine_grows() {
        let (before, started) = (since_boot(), std::time::Instant::now());
        while started.elapsed() < Duration::from_millis(2) {}
        assert!(since_boot() > before);
    }
}
