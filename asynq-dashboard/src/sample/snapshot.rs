//! All queues at one moment.

use std::sync::Arc;

use asynq_runtime::{
    Inspector, TaskState,
    broker::{Broker, QueueStats},
    inspector::{InspectError, UnreadableQueue},
};
use chrono::{DateTime, Utc};
use serde_json::Value;

/// All queues at one moment, by name.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    /// The time of the read, by the broker's clock.
    pub(crate) at: DateTime<Utc>,
    /// The queues, by name.
    pub(crate) queues: Vec<QueueStats>,
    /// Queues that cannot be read, by name; no sum includes them.
    pub(crate) unreadable: Vec<UnreadableQueue>,
    /// The sums over the queues.
    pub(crate) totals: Totals,
}

/// Sums over all queues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Tasks by state, in the order of [`TaskState::ALL`].
    pub(super) tasks: [u64; TaskState::ALL.len()],
    /// Runs that ended today (UTC), failed ones included.
    pub(crate) processed: u64,
    /// Runs that failed today (UTC).
    pub(crate) failed: u64,
    /// Runs that ended since the beginning.
    pub(crate) processed_total: u64,
    /// Runs that failed since the beginning.
    pub(crate) failed_total: u64,
    /// The greatest latency of a queue, in milliseconds.
    pub(crate) latency_ms: u64,
}

impl Snapshot {
    /// Creates a snapshot of these queues, both lists by name.
    pub(crate) fn new(at: DateTime<Utc>, queues: Vec<QueueStats>, unreadable: Vec<UnreadableQueue>) -> Self {
        let totals = queues.iter().fold(Totals::default(), Totals::add);
        Self { at, queues, unreadable, totals }
    }

    /// Returns the numbers of one queue.
    pub(crate) fn queue(&self, name: &str) -> Option<&QueueStats> {
        let at = self.queues.binary_search_by(|queue| queue.name.as_str().cmp(name)).ok()?;
        self.queues.get(at)
    }

    /// Returns whether the broker names the queue, readable or not.
    pub(super) fn names(&self, name: &str) -> bool {
        self.queue(name).is_some() || self.unreadable.binary_search_by(|queue| queue.name.as_str().cmp(name)).is_ok()
    }
}

impl Totals {
    /// Returns the numbers of one queue.
    pub(crate) fn of(queue: &QueueStats) -> Self {
        Self::default().add(queue)
    }

    /// Returns the number of tasks in a state.
    pub(crate) fn count(&self, state: TaskState) -> u64 {
        self.tasks[usize::from(state.number()) - 1]
    }

    /// Returns the sums in the JSON form, named as in
    /// [`Statistics::queue_to_json`](asynq_runtime::inspector::Statistics::queue_to_json).
    pub(crate) fn to_json(self) -> Value {
        let tasks = TaskState::ALL.into_iter().map(|state| (state.as_str(), self.count(state)));
        let others = [
            ("processed_today", self.processed),
            ("failed_today", self.failed),
            ("processed_total", self.processed_total),
            ("failed_total", self.failed_total),
            ("latency_ms", self.latency_ms),
        ];
        tasks.chain(others).collect()
    }

    fn add(self, queue: &QueueStats) -> Self {
        Self {
            tasks: TaskState::ALL.map(|state| self.count(state).saturating_add(queue.count(state))),
            processed: self.processed.saturating_add(queue.processed),
            failed: self.failed.saturating_add(queue.failed),
            processed_total: self.processed_total.saturating_add(queue.processed_total),
            failed_total: self.failed_total.saturating_add(queue.failed_total),
            latency_ms: self.latency_ms.max(u64::try_from(queue.latency.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

/// Reads every queue. A queue that cannot be read hides no other.
pub(super) async fn read(broker: &Arc<dyn Broker>) -> Result<Snapshot, InspectError> {
    let readings = Inspector::new(Arc::clone(broker)).each_queue().await?;
    let (queues, unreadable) = UnreadableQueue::part(readings);
    Ok(Snapshot::new(broker.now(), queues, unreadable))
}
