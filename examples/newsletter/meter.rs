//! Measures the runs of this process: how long tasks waited for their start, and how many ended per second.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

/// Shared by the jobs, which are measured, and the program, which shows the readings.
#[derive(Debug, Default)]
pub(crate) struct Meter(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    readings: Readings,
    began: Option<Instant>,
}

/// The measurements so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Readings {
    /// Times from enqueue to start, one per first attempt.
    pub(crate) waits: Vec<Duration>,
    /// First attempts that ended.
    pub(crate) ended: usize,
    /// The time from the start of the first of them to the end of the last.
    pub(crate) took: Duration,
}

/// An attempt that is being measured; it ends where this value is dropped, however it ends.
#[derive(Debug)]
pub(crate) struct Attempt<'a> {
    meter: &'a Meter,
    first: bool,
}

impl Meter {
    /// Measures an attempt until the returned value is dropped. `enqueued` is the moment in Unix milliseconds that the enqueue
    /// noted, `first` whether the task never ran before.
    pub(crate) fn start(&self, enqueued: Option<&str>, first: bool) -> Attempt<'_> {
        let mut inner = self.lock();
        inner.began.get_or_insert_with(Instant::now);
        if first && let Some(enqueued) = enqueued.and_then(|text| text.parse().ok()) {
            let wait = unix_millis().saturating_sub(enqueued);
            inner.readings.waits.push(Duration::from_millis(wait));
        }
        Attempt { meter: self, first }
    }

    pub(crate) fn readings(&self) -> Readings {
        self.lock().readings.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let mut inner = self.meter.lock();
        if self.first {
            inner.readings.ended += 1;
            inner.readings.took = inner.began.map(|began| began.elapsed()).unwrap_or_default();
        }
    }
}

impl Readings {
    /// Returns the first attempts per second, or `None` for fewer than two.
    pub(crate) fn rate(&self) -> Option<f64> {
        (self.ended > 1 && !self.took.is_zero()).then(|| self.ended as f64 / self.took.as_secs_f64())
    }

    /// Returns the wait that this share of the tasks did not exceed (nearest rank).
    pub(crate) fn percentile(&self, share: f64) -> Option<Duration> {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        let rank = (share * waits.len() as f64).ceil() as usize;
        waits.get(rank.clamp(1, waits.len().max(1)) - 1).copied()
    }
}

/// Returns the Unix milliseconds of now, as the enqueue notes them.
pub(crate) fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let waits = (1..=200).rev().map(Duration::from_millis).collect();
        let readings = Readings { waits, ..Readings::default() };
        assert_eq!(readings.percentile(0.50), Some(Duration::from_millis(100)));
        assert_eq!(readings.percentile(0.99), Some(Duration::from_millis(198)));
        assert_eq!(readings.percentile(1.0), Some(Duration::from_millis(200)));
        assert_eq!(Readings::default().percentile(0.5), None);
    }

    #[test]
    fn only_first_attempts_are_timed() {
        let meter = Meter::default();
        let enqueued = unix_millis().to_string();
        drop(meter.start(Some(&enqueued), true));
        drop(meter.start(Some(&enqueued), false));
        let readings = meter.readings();
        assert_eq!((readings.ended, readings.waits.len()), (1, 1));
    }
}
