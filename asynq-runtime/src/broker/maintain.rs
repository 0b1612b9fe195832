//! Contract: what keeps queues healthy (docs/design/recovery.md).

use std::time::Duration;

use super::{BrokerError, RunKey, Settled};
use crate::task::{QueueName, TaskId};

/// Housekeeping in slices: no call touches more than about 100 tasks per queue, so none can block a broker for long.
#[async_trait::async_trait]
pub trait Maintain {
    /// Moves scheduled and retry tasks whose time has come to pending, in due order, at most 100 per queue; one that was
    /// enqueued with a group goes to its group instead, and the group becomes known. `retries` says at which end of pending
    /// the retry tasks queue up.
    ///
    /// # Errors
    ///
    /// The broker failed; what was moved before stays moved.
    async fn forward(&self, queues: &[QueueName], retries: RetryOrder) -> Result<Forwarded, BrokerError>;

    /// Returns those of `queues` in which something may be due, as soon as there are any: at the next due time, which a write by
    /// anyone may bring nearer, or a few milliseconds later where many servers wait. Returns none after `limit`, or early for
    /// nothing. Dropping the future is safe.
    ///
    /// # Errors
    ///
    /// The broker cannot be asked; callers back off and try again.
    async fn wait_for_due(&self, queues: &[QueueName], limit: Duration) -> Result<Vec<QueueName>, BrokerError>;

    /// Waits as [`wait_for_due`](Self::wait_for_due) does and forwards what is due then, in the queues where something is; where
    /// a broker can, without another step in between. It may return for nothing. Dropping the future is safe.
    ///
    /// # Errors
    ///
    /// As those two.
    async fn wait_and_forward(
        &self,
        queues: &[QueueName],
        retries: RetryOrder,
        limit: Duration,
    ) -> Result<Forwarded, BrokerError> {
        let due = self.wait_for_due(queues, limit).await?;
        if due.is_empty() { Ok(Forwarded::default()) } else { self.forward(&due, retries).await }
    }

    /// Renews the lease of each run that is still ours. Anything but [`Settled::Ok`] means that the run is lost: stop it.
    ///
    /// # Errors
    ///
    /// The broker failed; nothing is known about any run.
    async fn extend(&self, runs: &[RunKey]) -> Result<Vec<Settled>, BrokerError>;

    /// Makes each unique lock that its running task still holds last at least until a lease that begins now ends; for
    /// tasks that ask for it. A lock that is another's by now stays as it is.
    ///
    /// # Errors
    ///
    /// The broker failed; nothing is known about any lock.
    async fn extend_locks(&self, locks: &[HeldLock]) -> Result<(), BrokerError>;

    /// Requeues tasks whose worker is gone at the head of pending, in the order in which they were taken: `retried` unchanged,
    /// `crashes` + 1, at most 100 per queue. A run of ours is gone when its lease has passed (on SQLite also as soon as its
    /// server is dead); a Go run gets Go's own grace of 30 s more.
    ///
    /// # Errors
    ///
    /// The broker failed; what was recovered before stays recovered.
    async fn recover(&self, queues: &[QueueName]) -> Result<Recovered, BrokerError>;

    /// Returns how long nothing in `queues` is to be recovered: [`recover`](Self::recover) must not be called before. Leases
    /// that are there now do not lapse earlier, or all lapsed at once a moment ago, because the broker was away or its clock
    /// stepped, and every server that lives must have had time to extend its own. Zero where only that call can tell.
    ///
    /// # Errors
    ///
    /// The broker cannot be asked.
    async fn until_lapse(&self, _queues: &[QueueName]) -> Result<Duration, BrokerError> {
        Ok(Duration::ZERO)
    }

    /// Repairs what a crash of something else left behind: active without a lease, ids without a task.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn sweep(&self, queue: &QueueName) -> Result<Swept, BrokerError>;

    /// Makes groups known that have tasks and that nobody knows, and sets whose deadline was lost, as other programs may leave
    /// them: a part of a search through everything, for all `queues` at once. Of many servers that ask, not each need search.
    /// Returns how many. Default: none, for brokers in which no such thing can be.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn restore_groups(&self, _queues: &[QueueName]) -> Result<usize, BrokerError> {
        Ok(0)
    }

    /// Returns those of these queues in which [`delete_expired`](Self::delete_expired), [`trim_archive`](Self::trim_archive) or
    /// [`reclaim_sets`](super::Groups::reclaim_sets) may find something to do, by one question about all of them, so that
    /// queues in which nothing happens cost nothing. Default: all.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn worth_cleaning(&self, policies: &[ArchivePolicy]) -> Result<Vec<QueueName>, BrokerError> {
        Ok(policies.iter().map(|policy| policy.queue.clone()).collect())
    }

    /// Returns those of `queues` in which [`sweep`](Self::sweep) may find something. Default: all.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn worth_sweeping(&self, queues: &[QueueName]) -> Result<Vec<QueueName>, BrokerError> {
        Ok(queues.to_vec())
    }

    /// Deletes at most `limit` completed tasks whose retention has passed; returns how many.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn delete_expired(&self, queue: &QueueName, limit: usize) -> Result<usize, BrokerError>;

    /// Deletes archived tasks, id and contents, oldest first, at most `limit`: those archived `max_age` ago or earlier,
    /// and those beyond the newest `max_size`. Returns how many.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn trim_archive(
        &self,
        queue: &QueueName,
        max_age: Duration,
        max_size: usize,
        limit: usize,
    ) -> Result<usize, BrokerError>;
}

/// How much of the archive of a queue is kept, as [`Maintain::trim_archive`] is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivePolicy {
    /// The queue.
    pub queue: QueueName,
    /// For how long at most.
    pub max_age: Duration,
    /// How many tasks at most.
    pub max_size: usize,
}

/// A unique lock and the run of the task that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLock {
    /// The run.
    pub run: RunKey,
    /// Full key of the lock, [`TaskMessage::unique_key`](crate::task::TaskMessage::unique_key).
    pub key: String,
}

/// Where a retry task that is due queues up among the pending tasks of its queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum RetryOrder {
    /// Behind all that wait, as in Go's asynq.
    #[default]
    Last,
    /// Before all that wait; of several that are due at once, the one that was due first comes first.
    First,
}

/// What [`Maintain::forward`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// Tasks that became pending.
    pub moved: usize,
    /// Whether more is due already.
    pub more: bool,
}

/// What [`Maintain::recover`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Tasks that are pending again; of each queue the next to be taken is the first.
    pub tasks: Vec<(QueueName, TaskId)>,
    /// Whether more is waiting to be recovered already.
    pub more: bool,
}

/// What [`Maintain::sweep`] repaired.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Active tasks that had no lease and got one that ends at once, so that recovery sees them.
    pub leases_restored: usize,
    /// Ids in active or pending without a task, removed.
    pub ghosts_removed: usize,
}
