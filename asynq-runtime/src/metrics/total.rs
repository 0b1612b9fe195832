//! Gauges to which several servers of one program add.

use std::sync::atomic::{AtomicI64, Ordering};

use metrics::{Gauge, Key};

use super::{
    job, names,
    resolved::{METADATA, Resolved},
};

/// Outcomes that wait for the broker.
pub(crate) static OUTBOX: Total = Total::new(names::OUTBOX);
/// Schedulers that lead.
static LEADERS: Total = Total::new(names::LEADER);

/// The sum of all [`Share`]s, shown as a gauge.
pub(crate) struct Total {
    name: &'static str,
    sum: AtomicI64,
    gauge: Resolved<Gauge>,
}

impl Total {
    pub(super) const fn new(name: &'static str) -> Self {
        Self { name, sum: AtomicI64::new(0), gauge: Resolved::new() }
    }

    /// Returns a share of the total, 0 at first.
    pub(crate) const fn share(&'static self) -> Share {
        Share { of: self, value: AtomicI64::new(0) }
    }

    fn add(&self, by: i64) {
        let gauge = self.gauge.get(|recorder| recorder.register_gauge(&Key::from_static_name(self.name), &METADATA));
        job::add(&self.sum, by, &gauge);
    }
}

/// Shows all totals, also to a recorder that was installed after their last change.
pub(super) fn show_all() {
    OUTBOX.add(0);
    LEADERS.add(0);
}

/// One owner's part of a total of the whole program. The drop subtracts it.
#[non_exhaustive]
pub struct Share {
    of: &'static Total,
    value: AtomicI64,
}

impl Share {
    /// Sets this owner's part to `value`.
    pub fn set(&self, value: usize) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        let before = self.value.swap(value, Ordering::Relaxed);
        self.of.add(value - before);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

partial_debug!(Share { value, .. });

/// Returns a scheduler's share of `asynq_leader`: the scheduler sets 1 when it begins to lead, and 0 when it ends.
pub fn leader() -> Share {
    LEADERS.share()
}
