//! A scheduler's estimate of the broker's time: this machine's wall clock and its offset.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};

/// A wall clock that moved this much more, or less, than time passed has been set, or the machine has slept.
const JUMP: TimeDelta = TimeDelta::milliseconds(500);

/// A reading of the two clocks of this machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) wall: DateTime<Utc>,
    pub(crate) steady: Instant,
}

impl Reading {
    pub(crate) fn now() -> Self {
        Self { wall: Utc::now(), steady: Instant::now() }
    }
}

/// The broker's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BrokerClock {
    offset: TimeDelta,
    measured: Reading,
}

impl BrokerClock {
    /// The clock before the first answer of the broker: this machine's own.
    pub(crate) fn unknown(now: Reading) -> Self {
        Self { offset: TimeDelta::zero(), measured: now }
    }

    /// The clock of a broker that reported the time `broker` between two readings, most likely in their middle.
    pub(crate) fn measured(broker: DateTime<Utc>, before: Reading, after: Reading) -> Self {
        let took = after.steady.saturating_duration_since(before.steady);
        let half = TimeDelta::from_std(took / 2).unwrap_or_default();
        Self { offset: broker - (after.wall - half), measured: after }
    }

    /// The broker's time at a reading.
    pub(crate) fn at(&self, now: Reading) -> DateTime<Utc> {
        now.wall.checked_add_signed(self.offset).unwrap_or(now.wall)
    }

    /// The broker's time that is expected at a reading: the later one of [`at`](Self::at) and of the time that has passed since
    /// the measurement. The first hides that the broker's clock was set back where this machine's was set back with it.
    pub(crate) fn expected(&self, now: Reading) -> DateTime<Utc> {
        let by_wall = self.at(now);
        let passed = TimeDelta::from_std(now.steady.saturating_duration_since(self.measured.steady)).ok();
        let by_steady = passed.and_then(|passed| self.at(self.measured).checked_add_signed(passed));
        by_steady.map_or(by_wall, |by_steady| by_steady.max(by_wall))
    }

    /// Whether this machine's clock has jumped since the measurement, so that the broker must be asked again.
    pub(crate) fn has_jumped(&self, now: Reading) -> bool {
        let steady = now.steady.saturating_duration_since(self.measured.steady);
        let expected = TimeDelta::from_std(steady).unwrap_or(TimeDelta::MAX);
        ((now.wall - self.measured.wall) - expected).abs() > JUMP
    }

    /// How far this machine's clock is off.
    pub(crate) fn skew(&self) -> TimeDelta {
        self.offset
    }
}

/// How long to sleep: until the next moment, but never so long that a clock that was set is noticed late.
pub(crate) fn pause(next: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Duration {
    const MOST: Duration = Duration::from_secs(1);
    next.map_or(MOST, |next| (next - now).to_std().unwrap_or_default().min(MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_brokers_time_is_in_the_middle_of_the_request() {
        let before = Reading::now();
        let after =
            Reading { wall: before.wall + TimeDelta::seconds(2), steady: before.steady + Duration::from_secs(2) };
        let day = TimeDelta::days(1);
        let clock = BrokerClock::measured(before.wall + day, before, after);
        assert_eq!(clock.at(after), before.wall + day + TimeDelta::seconds(1));
        assert_eq!(clock.skew(), day - TimeDelta::seconds(1));
        assert_eq!(BrokerClock::unknown(before).at(after), after.wall);
    }

    #[test]
    fn a_clock_that_was_set_or_a_machine_that_slept_is_noticed() {
        let start = Reading::now();
        let clock = BrokerClock::unknown(start);
        let later = |wall: i64, steady: u64| Reading {
            wall: start.wall + TimeDelta::milliseconds(wall),
            steady: start.steady + Duration::from_millis(steady),
        };
        for (wall, steady, jumped) in
            [(60_000, 60_000, false), (60_400, 60_000, false), (86_400_000, 1_000, true), (-86_400_000, 1_000, true)]
        {
            assert_eq!(clock.has_jumped(later(wall, steady)), jumped, "{wall} {steady}");
        }
    }

    #[test]
    fn a_sleep_ends_soon_after_a_clock_is_set() {
        let now = Utc::now();
        for (next, expected) in [(None, 1_000), (Some(3_600_000), 1_000), (Some(250), 250), (Some(-5), 0)] {
            let next = next.map(|by| now + TimeDelta::milliseconds(by));
            assert_eq!(pause(next, now), Duration::from_millis(expected));
        }
    }
}
