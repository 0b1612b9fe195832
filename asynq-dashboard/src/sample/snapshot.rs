//! All queues at one moment.

use std::sync::Arc;

use asynq_runtime::{
    Inspector,
    broker::{Broker, BrokerError, BrokerErrorKind, QueueStats},
    inspector::{InspectError, UnreadableQueue},
};
use chrono::{DateTime, Utc};
use serde::Serialize;

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

/// Sums over all queues, named in JSON as in [`Statistics::queue_to_json`](asynq_runtime::inspector::Statistics::queue_to_json).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Totals {
    /// As in [`QueueStats`].
    pub(crate) pending: u64,
    /// As in [`QueueStats`].
    pub(crate) active: u64,
    /// As in [`QueueStats`].
    pub(crate) scheduled: u64,
    /// As in [`QueueStats`].
    pub(crate) retry: u64,
    /// As in [`QueueStats`].
    pub(crate) archived: u64,
    /// As in [`QueueStats`].
    pub(crate) completed: u64,
    /// As in [`QueueStats`].
    pub(crate) aggregating: u64,
    /// Runs that ended today (UTC), failed ones included.
    #[serde(rename = "processed_today")]
    pub(crate) processed: u64,
    /// Runs that failed today (UTC).
    #[serde(rename = "failed_today")]
    pub(crate) failed: u64,
    /// Runs that ended since the beginning.
    pub(crate) processed_total: u64,
    /// Runs that failed since the beginning.
    pub(crate) failed_total: u64,
    /// The greatest latency of a queue, in milliseconds.
    pub(crate) latency_ms: u64,
}

impl Snapshot {
    /// Creates a snapshot of these queues.
    pub(crate) fn new(at: DateTime<Utc>, mut queues: Vec<QueueStats>, mut unreadable: Vec<UnreadableQueue>) -> Self {
        queues.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
        unreadable.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
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

    fn add(self, queue: &QueueStats) -> Self {
        Self {
            pending: self.pending.saturating_add(queue.pending),
            active: self.active.saturating_add(queue.active),
            scheduled: self.scheduled.saturating_add(queue.scheduled),
            retry: self.retry.saturating_add(queue.retry),
            archived: self.archived.saturating_add(queue.archived),
            completed: self.completed.saturating_add(queue.completed),
            aggregating: self.aggregating.saturating_add(queue.aggregating),
            processed: self.processed.saturating_add(queue.processed),
            failed: self.failed.saturating_add(queue.failed),
            processed_total: self.processed_total.saturating_add(queue.processed_total),
            failed_total: self.failed_total.saturating_add(queue.failed_total),
            latency_ms: self.latency_ms.max(u64::try_from(queue.latency.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

/// Reads every queue. A queue that cannot be read hides no other.
pub(super) async fn read(broker: &Arc<dyn Broker>) -> Result<Snapshot, BrokerError> {
    let inspector = Inspector::new(Arc::clone(broker));
    let (queues, unreadable) = UnreadableQueue::part(inspector.each_queue().await.map_err(of_the_broker)?);
    Ok(Snapshot::new(broker.now(), queues, unreadable))
}

fn of_the_broker(error: InspectError) -> BrokerError {
    match error {
        InspectError::Broker(error) => error,
        other => BrokerError::with_source(BrokerErrorKind::Unexpected, other.to_string(), other),
    }
}
