//! What a component does when the broker does not answer: says so now and then, and pauses ever longer.

use std::time::{Duration, Instant};

use super::{backoff::Backoff, dice::Dice};
use crate::broker::BrokerError;

/// asynq's limit: one line per 3 s and component.
const BETWEEN_LINES: Duration = Duration::from_secs(3);
/// A wait that ends sooner than this has not waited.
const AT_ONCE: Duration = Duration::from_millis(2);
/// So many waits in a row may end at once for nothing.
const FALSE_ALARMS: u32 = 8;

/// One component's trouble with the broker.
#[derive(Debug)]
pub(crate) struct Trouble {
    component: &'static str,
    backoff: Backoff,
    dice: Dice,
    last_line: Option<Instant>,
    is_on: bool,
}

impl Trouble {
    /// Pauses from 100 ms up to `most`.
    pub(crate) fn of(component: &'static str, most: Duration) -> Self {
        Self {
            component,
            backoff: Backoff::new(Duration::from_millis(100).min(most), most),
            dice: Dice::new(),
            last_line: None,
            is_on: false,
        }
    }

    /// The broker failed; returns how long to wait before trying again.
    pub(crate) fn met(&mut self, error: &BrokerError) -> Duration {
        if self.last_line.is_none_or(|at| at.elapsed() >= BETWEEN_LINES) {
            self.last_line = Some(Instant::now());
            tracing::error!(component = self.component, "the broker failed, will try again: {error}");
        }
        crate::metrics::broker_failed(self.component, error.kind());
        self.is_on = true;
        self.backoff.pause(&mut self.dice)
    }

    /// The broker answered.
    pub(crate) fn over(&mut self) {
        if self.is_on {
            tracing::info!(component = self.component, "the broker answers again");
            self.is_on = false;
            self.backoff.reset();
        }
    }
}

/// Keeps a wait that ends for nothing again and again from becoming a busy loop.
#[derive(Debug)]
pub(crate) struct FalseAlarms {
    seen: u32,
    backoff: Backoff,
    dice: Dice,
}

impl FalseAlarms {
    pub(crate) fn new() -> Self {
        let backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(250));
        Self { seen: 0, backoff, dice: Dice::new() }
    }

    /// Something was there: the alarm was right.
    pub(crate) fn fruitful(&mut self) {
        self.seen = 0;
        self.backoff.reset();
    }

    /// Nothing was there after a wait of `waited`; returns how long to pause, usually not at all.
    pub(crate) fn fruitless(&mut self, waited: Duration) -> Duration {
        if waited > AT_ONCE {
            self.fruitful();
            return Duration::ZERO;
        }
        self.seen = self.seen.saturating_add(1);
        if self.seen <= FALSE_ALARMS { Duration::ZERO } else { self.backoff.pause(&mut self.dice) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::BrokerErrorKind;

    #[test]
    fn pauses_grow_while_the_broker_fails_and_start_over_when_it_answers() {
        let mut trouble = Trouble::of("test", Duration::from_secs(1));
        let error = BrokerError::new(BrokerErrorKind::Unavailable, "down");
        assert!(trouble.met(&error) <= Duration::from_millis(100));
        for _ in 0..5 {
            trouble.met(&error);
        }
        assert!(trouble.met(&error) >= Duration::from_millis(500));
        trouble.over();
        assert!(trouble.met(&error) <= Duration::from_millis(100));
    }

    #[test]
    fn only_alarms_that_keep_coming_for_nothing_are_slowed_down() {
        let mut alarms = FalseAlarms::new();
        assert!((0..FALSE_ALARMS).all(|_| alarms.fruitless(Duration::ZERO).is_zero()));
        assert!(!alarms.fruitless(Duration::ZERO).is_zero());
        assert!(alarms.fruitless(Duration::from_millis(5)).is_zero());
        assert!(alarms.fruitless(Duration::ZERO).is_zero());
    }
}
