//! Redis's time as this process knows it: the machine's clock plus what Redis's differs from it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, Ordering},
};

use chrono::{DateTime, TimeDelta, Utc};

use crate::{broker::RunToken, clock::Clock};

/// Above this the clocks of Go workers, which use their own, get in the way of ours (PROTOCOL D24).
const MOST_SKEW: TimeDelta = TimeDelta::seconds(2);

/// A slower answer had to wait for something, a connection or a busy machine, and tells the time badly.
const LONGEST_ROUND_TRIP: TimeDelta = TimeDelta::milliseconds(250);

/// The clock of one broker.
#[derive(Debug)]
pub(super) struct BrokerClock {
    given: Option<Arc<dyn Clock>>,
    ahead_ns: AtomicI64,
    learnt: AtomicBool,
    warned: AtomicBool,
    last_token: AtomicI64,
    nonce: i64,
}

impl BrokerClock {
    pub(super) fn new(given: Option<Arc<dyn Clock>>) -> Self {
        let nonce = (uuid::Uuid::new_v4().as_u128() % 1000) as i64;
        let (ahead_ns, last_token) = (AtomicI64::new(0), AtomicI64::new(0));
        let (learnt, warned) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { given, ahead_ns, learnt, warned, last_token, nonce }
    }

    /// Redis's time, or the given clock's.
    pub(super) fn now(&self) -> DateTime<Utc> {
        match &self.given {
            Some(clock) => clock.now(),
            None => Utc::now() + TimeDelta::nanoseconds(self.ahead_ns.load(Ordering::Relaxed)),
        }
    }

    /// Whether a test turns this clock by hand.
    pub(super) fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// What scripts get as `now`: empty, so that they ask Redis, unless a clock was given.
    pub(super) fn argument(&self) -> String {
        match &self.given {
            // Ten digits at least, so that a script can cut off the nanoseconds.
            Some(clock) => nanos(clock.now()).max(1_000_000_000).to_string(),
            None => String::new(),
        }
    }

    /// Learns from Redis's `TIME`, asked between `before` and `after` by the machine's clock. Once it knows something, it
    /// learns from quick answers only.
    pub(super) fn learn(&self, before: DateTime<Utc>, redis: DateTime<Utc>, after: DateTime<Utc>) {
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

    /// A run token that was never drawn before by this broker (FENCE.md §3).
    pub(super) fn token(&self) -> RunToken {
        let now = nanos(self.now());
        let mut last = self.last_token.load(Ordering::Relaxed);
        loop {
            let next = next_token(last, now, self.nonce);
            match self.last_token.compare_exchange_weak(last, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return RunToken(next),
                Err(other) => last = other,
            }
        }
    }
}

/// Microseconds from the time, never one that was used before, and the nonce of this broker in the last three digits.
fn next_token(last: i64, now: i64, nonce: i64) -> i64 {
    let floor = |ns: i64| ns - ns.rem_euclid(1000);
    floor(now).max(floor(last).saturating_add(1000)) + nonce
}

fn nanos(at: DateTime<Utc>) -> i64 {
    at.timestamp_nanos_opt().unwrap_or(if at.timestamp() < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    #[test]
    fn tokens_grow_even_when_the_clock_stands_still_or_goes_back() {
        let cases = [
            // last, now, expected
            (0, 1_700_000_000_123_456_789, 1_700_000_000_123_456_007),
            (1_700_000_000_123_456_007, 1_700_000_000_123_456_789, 1_700_000_000_123_457_007),
            (1_700_000_000_123_457_007, 5, 1_700_000_000_123_458_007),
        ];
        for (last, now, expected) in cases {
            assert_eq!(next_token(last, now, 7), expected);
        }
        let clock = BrokerClock::new(Some(Arc::new(ManualClock::default())));
        let tokens: Vec<_> = (0..100).map(|_| clock.token()).collect();
        assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(tokens.iter().all(|token| token.to_string().len() == 19));
    }

    #[test]
    fn the_clock_of_redis_is_learnt_from_the_middle_of_the_call() {
        let clock = BrokerClock::new(None);
        let before = Utc::now();
        clock.learn(before, before + TimeDelta::seconds(100), before + TimeDelta::seconds(2));
        let ahead = clock.now() - Utc::now();
        assert!((ahead - TimeDelta::seconds(99)).abs() < TimeDelta::seconds(1), "{ahead}");
        assert_eq!(clock.argument(), "");

        clock.learn(before, before, before + TimeDelta::seconds(2));
        assert!(clock.now() - Utc::now() > TimeDelta::seconds(98), "an answer that had to wait teaches nothing new");
        clock.learn(before, before, before);
        assert!(clock.now() - Utc::now() < TimeDelta::seconds(1));
    }
}
