//! Redis's time as this process knows it: the machine's clock plus the measured difference.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, Ordering},
};

use chrono::{DateTime, TimeDelta, Utc};

use crate::{
    broker::{RunToken, token::TokenSource},
    clock::Clock,
};

/// Above this difference, Go workers, which use the clocks of their machines, run tasks early or late.
const MOST_SKEW: TimeDelta = TimeDelta::seconds(2);

/// Longest round trip that corrects the clock: a slower answer waited for a connection or a busy machine.
const LONGEST_ROUND_TRIP: TimeDelta = TimeDelta::milliseconds(250);

/// The clock of one broker.
#[derive(Debug)]
pub(super) struct BrokerClock {
    given: Option<Arc<dyn Clock>>,
    ahead_ns: AtomicI64,
    learnt: AtomicBool,
    warned: AtomicBool,
    tokens: TokenSource,
}

impl BrokerClock {
    pub(super) fn new(given: Option<Arc<dyn Clock>>) -> Self {
        let (learnt, warned) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { given, ahead_ns: AtomicI64::new(0), learnt, warned, tokens: TokenSource::new() }
    }

    /// Returns Redis's time, or that of the given clock.
    pub(super) fn now(&self) -> DateTime<Utc> {
        match &self.given {
            Some(clock) => clock.now(),
            None => Utc::now() + TimeDelta::nanoseconds(self.ahead_ns.load(Ordering::Relaxed)),
        }
    }

    /// Returns whether the clock was given, as in tests.
    pub(super) fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// Draws a run token that this broker never drew before.
    pub(super) fn token(&self) -> RunToken {
        self.tokens.draw(self.now())
    }

    /// Returns how far this machine's clock is ahead of Redis's; `None` before the first measurement, and for a given
    /// clock, which is not this machine's.
    pub(super) fn host_ahead(&self) -> Option<TimeDelta> {
        let is_known = self.given.is_none() && self.learnt.load(Ordering::Relaxed);
        is_known.then(|| -TimeDelta::nanoseconds(self.ahead_ns.load(Ordering::Relaxed)))
    }

    /// Returns the argument `now` of scripts: empty, so that they ask Redis, unless a clock was given.
    pub(super) fn argument(&self) -> String {
        match &self.given {
            // Ten digits at least, so that a script can cut off the nanoseconds.
            Some(clock) => nanos(clock.now()).max(1_000_000_000).to_string(),
            None => String::new(),
        }
    }

    /// Learns the difference from Redis's `TIME`, asked between `before` and `after` by the machine's clock. After the
    /// first answer, only quick ones count. A given clock learns nothing.
    pub(super) fn learn(&self, before: DateTime<Utc>, redis: DateTime<Utc>, after: DateTime<Utc>) {
        if self.is_given() {
            return;
        }
        if self.learnt.swap(true, Ordering::Relaxed) && after - before > LONGEST_ROUND_TRIP {
            return;
        }
        let ahead = redis - (before + (after - before) / 2);
        self.ahead_ns.store(ahead.num_nanoseconds().unwrap_or(0), Ordering::Relaxed);
        let skewed = ahead.abs() > MOST_SKEW;
        if skewed && !self.warned.swap(true, Ordering::Relaxed) {
            let seconds = ahead.num_milliseconds() as f64 / 1000.0;
            tracing::warn!(
                seconds,
                "the clock of Redis differs from this machine's by more than 2 s; \
                 Go servers on such machines run tasks early or late: synchronise the clocks"
            );
        } else if !skewed {
            self.warned.store(false, Ordering::Relaxed);
        }
    }
}

fn nanos(at: DateTime<Utc>) -> i64 {
    at.timestamp_nanos_opt().unwrap_or(if at.timestamp() < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_redis_is_learnt_from_the_middle_of_the_call() {
        let clock = BrokerClock::new(None);
        assert_eq!(clock.host_ahead(), None);
        let before = Utc::now();
        clock.learn(before, before + TimeDelta::seconds(100), before + TimeDelta::seconds(2));
        let ahead = clock.now() - Utc::now();
        assert!((ahead - TimeDelta::seconds(99)).abs() < TimeDelta::seconds(1), "{ahead}");
        assert_eq!(clock.argument(), "");
        assert_eq!(clock.host_ahead(), Some(TimeDelta::seconds(-99)), "this machine is behind");

        clock.learn(before, before, before + TimeDelta::seconds(2));
        assert!(clock.now() - Utc::now() > TimeDelta::seconds(98), "an answer that had to wait teaches nothing new");
        clock.learn(before, before, before);
        assert!(clock.now() - Utc::now() < TimeDelta::seconds(1));
        assert_eq!(clock.host_ahead(), Some(TimeDelta::zero()));
        let given = BrokerClock::new(Some(Arc::new(crate::clock::SystemClock)));
        given.learn(before, before, before);
        assert_eq!(given.host_ahead(), None);
    }
}
