//! Redis's time as this process knows it: the last answer of `TIME`, and the time that has passed since then.
//!
//! The machine's wall clock is not part of it: it may be set, also while a connection lasts for weeks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;

pub(super) use crate::clock::since_boot;
use crate::{
    broker::{RunToken, token::TokenSource},
    clock::Clock,
};

/// Above this difference, Go workers, which use the clocks of their machines, run tasks early or late.
const MOST_SKEW: TimeDelta = TimeDelta::seconds(2);

/// Longest round trip that makes the clock more exact: a slower answer waited for a connection or a busy machine.
const LONGEST_ROUND_TRIP: Duration = Duration::from_millis(250);

/// The clock of one broker.
#[derive(Debug)]
pub(super) struct BrokerClock {
    given: Option<Arc<dyn Clock>>,
    measured: Mutex<Option<Measured>>,
    warned: AtomicBool,
    /// Whether the warning of masters whose clocks differ was logged.
    warned_of_masters: AtomicBool,
    tokens: TokenSource,
}

/// An answer of `TIME`.
#[derive(Debug, Clone, Copy)]
struct Measured {
    redis: DateTime<Utc>,
    /// The [`since_boot`] at which Redis's clock most likely showed that time.
    at: Duration,
}

impl Measured {
    /// Returns Redis's time at that [`since_boot`].
    fn redis_at(self, at: Duration) -> DateTime<Utc> {
        self.redis.checked_add_signed(span(at) - span(self.at)).unwrap_or(self.redis)
    }
}

impl BrokerClock {
    pub(super) fn new(given: Option<Arc<dyn Clock>>) -> Self {
        Self {
            given,
            measured: Mutex::new(None),
            warned: AtomicBool::new(false),
            warned_of_masters: AtomicBool::new(false),
            tokens: TokenSource::new(),
        }
    }

    /// Returns Redis's time, or that of the given clock; before the first answer of Redis, the machine's.
    pub(super) fn now(&self) -> DateTime<Utc> {
        match &self.given {
            Some(clock) => clock.now(),
            None => self.redis_at(since_boot()).unwrap_or_else(Utc::now),
        }
    }

    fn redis_at(&self, at: Duration) -> Option<DateTime<Utc>> {
        self.measured.lock().map(|measured| measured.redis_at(at))
    }

    /// Returns whether the clock was given, as in tests.
    pub(super) fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// Returns whether Redis's time was learnt less than `age` ago; a given clock is always fresh, because it learns nothing.
    pub(super) fn is_fresh(&self, age: Duration) -> bool {
        let is_recent = |measured: Measured| since_boot().saturating_sub(measured.at) < age;
        self.is_given() || self.measured.lock().is_some_and(is_recent)
    }

    /// Draws a run token that this broker never drew before.
    pub(super) fn token(&self) -> RunToken {
        self.tokens.draw(self.now())
    }

    /// Returns how far this machine's clock is ahead of Redis's; `None` before the first measurement, and for a given
    /// clock, which is not this machine's.
    pub(super) fn host_ahead(&self) -> Option<TimeDelta> {
        if self.is_given() {
            return None;
        }
        Some(Utc::now() - self.redis_at(since_boot())?)
    }

    /// Returns the argument `now` of scripts: empty, so that they ask Redis, unless a clock was given.
    pub(super) fn argument(&self) -> String {
        match &self.given {
            // Ten digits at least, so that a script can cut off the nanoseconds.
            Some(clock) => nanos(clock.now()).max(1_000_000_000).to_string(),
            None => String::new(),
        }
    }

    /// Learns Redis's time from its `TIME`, asked between two readings of [`since_boot`]. A slow answer counts only where there is
    /// no other yet, or where it contradicts the time that is known. A given clock learns nothing.
    pub(super) fn learn(&self, before: Duration, redis: DateTime<Utc>, after: Duration) {
        if self.is_given() {
            return;
        }
        let took = after.saturating_sub(before);
        let measured = Measured { redis, at: before + took / 2 };
        let known = self.redis_at(measured.at);
        if took > LONGEST_ROUND_TRIP && known.is_some_and(|known| (known - redis).abs() <= span(took / 2)) {
            return;
        }
        *self.measured.lock() = Some(measured);
        let ahead = self.host_ahead().unwrap_or_default();
        let skewed = ahead.abs() > MOST_SKEW;
        if skewed && !self.warned.swap(true, Ordering::Relaxed) {
            let seconds = -ahead.num_milliseconds() as f64 / 1000.0;
            log!(
                warn,
                seconds,
                "the clock of Redis differs from this machine's by more than 2 s; \
                 Go servers on such machines run tasks early or late: synchronise the clocks"
            );
        } else if !skewed {
            self.warned.store(false, Ordering::Relaxed);
        }
    }

    /// Learns that Redis's clock was set back, if the time of a dequeue that was sent at `before` shows it: a task must not be archived
    /// for an end that has not come. A clock that was set ahead is learnt later, as by the clients that give the ends.
    pub(super) fn learn_if_set_back(&self, before: Duration, redis: DateTime<Utc>, after: Duration) {
        if self.redis_at(before).is_some_and(|known| known - redis > span(LONGEST_ROUND_TRIP)) {
            self.learn(before, redis, after);
        }
    }

    /// Returns the latest of the `times` that the masters of a cluster have told within `took`. Warns once if their clocks differ by
    /// more than 2 s, because a program knows the time of one of them.
    pub(super) fn latest(&self, times: &[DateTime<Utc>], took: Duration) -> Option<DateTime<Utc>> {
        let (earliest, latest) = (*times.iter().min()?, *times.iter().max()?);
        let apart = latest - earliest;
        if apart - span(took) > MOST_SKEW && !self.warned_of_masters.swap(true, Ordering::Relaxed) {
            let seconds = apart.num_milliseconds() as f64 / 1000.0;
            log!(
                warn,
                seconds,
                "the clocks of two masters of this cluster differ by more than 2 s: delayed tasks, retries and the tasks of dead workers \
                 come late in the queues of the one, or tasks expire early in those of the other; synchronise the clocks of the masters \
                 that `asynq doctor` names"
            );
        }
        Some(latest)
    }
}

fn span(time: Duration) -> TimeDelta {
    TimeDelta::from_std(time).unwrap_or(TimeDelta::MAX)
}

fn nanos(at: DateTime<Utc>) -> i64 {
    at.timestamp_nanos_opt().unwrap_or(if at.timestamp() < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use asynq_test_support::{Log, PATIENCE};

    use super::*;
    use crate::clock::ManualClock;

    /// The seconds by which Redis's time is ahead of this machine's.
    fn ahead(clock: &BrokerClock) -> f64 {
        clock.host_ahead().unwrap().num_milliseconds() as f64 / -1000.0
    }

    #[test]
    fn the_clock_of_redis_is_learnt_from_the_middle_of_the_call() {
        let clock = BrokerClock::new(None);
        assert_eq!(clock.host_ahead(), None);
        assert!(!clock.is_fresh(PATIENCE));
        let (now, second) = (Utc::now(), Duration::from_secs(1));
        let before = since_boot();
        clock.learn(before, now + TimeDelta::seconds(100), before + 2 * second);
        assert!((ahead(&clock) - 99.0).abs() < 1.0, "{}", ahead(&clock));
        assert!((clock.now() - Utc::now() - TimeDelta::seconds(99)).abs() < TimeDelta::seconds(1));
        assert_eq!(clock.argument(), "");

        clock.learn(before, now, before);
        assert!(ahead(&clock).abs() < 1.0, "a quick answer counts");
        assert!(clock.is_fresh(PATIENCE) && !clock.is_fresh(Duration::ZERO));
        let given = BrokerClock::new(Some(Arc::new(ManualClock::new(now))));
        given.learn(before, now, before);
        assert!(given.host_ahead().is_none() && given.is_fresh(Duration::ZERO));
    }

    #[test]
    fn a_slow_answer_counts_where_it_contradicts_what_is_known() {
        let clock = BrokerClock::new(None);
        let (now, start, round_trip) = (Utc::now(), since_boot(), Duration::from_secs(2));
        clock.learn(start, now, start);
        clock.learn(start, now, start + round_trip);
        assert_eq!(clock.redis_at(start), Some(now), "Redis may have answered at once");
        let set_back = now - TimeDelta::hours(1);
        clock.learn(start, set_back, start + round_trip);
        assert_eq!(clock.redis_at(start + round_trip / 2), Some(set_back));
    }

    #[test]
    fn masters_whose_clocks_differ_are_warned_of_once() {
        let (clock, log) = (BrokerClock::new(None), Log::keep());
        let at = |seconds: i64| DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds);
        let second = Duration::from_secs(1);
        let table: [(&[i64], Duration, usize); 6] = [
            (&[], second, 0),
            (&[0], second, 0),
            (&[0, 2, 1], second, 0),
            // The answers may be two seconds apart.
            (&[0, 4], 2 * second, 0),
            (&[0, 4, 1], second, 1),
            (&[4, 0], Duration::ZERO, 1),
        ];
        for (times, took, lines) in table {
            let times: Vec<_> = times.iter().copied().map(at).collect();
            assert_eq!(clock.latest(&times, took), times.iter().copied().max());
            assert_eq!(log.with("the clocks of two masters of this cluster differ").len(), lines, "{times:?}: {log:?}");
        }
    }
}
