//! Contract: housekeeping of queues (docs/design/recovery.md).

use std::time::Duration;

use super::{BrokerError, RunKey, Settled};
use crate::task::{QueueName, TaskId};

/// How many leases an extended unique lock lasts. A run outlives an outage of its broker that is longer than a lease, and an equal task
/// must not run beside it then.
pub(crate) const LOCK_LEASES: u32 = 20;

/// Housekeeping in slices: no call touches more than about 100 tasks per queue, so none can block a broker for long.
#[async_trait::async_trait]
pub trait Maintain {
    /// Moves scheduled and retry tasks whose time has come to pending, in due order, at most 100 per queue. A task that was
    /// enqueued with a group joins its group instead, and the group becomes known. `retries` selects the end of pending at which
    /// retry tasks are inserted.
    ///
    /// # Errors
    ///
    /// The broker failed; tasks that were moved before stay moved.
    async fn forward(&self, queues: &[QueueName], retries: RetryOrder) -> Result<Forwarded, BrokerError>;

    /// Waits until a task may be due in one of `queues`, and returns those queues: at the next due time, which a write of any
    /// program may bring nearer, or a few milliseconds later with many servers. Returns no queue after `limit`, and may do so
    /// earlier. Dropping the future is safe.
    ///
    /// # Errors
    ///
    /// The broker cannot be asked; callers back off and try again.
    async fn wait_for_due(&self, queues: &[QueueName], limit: Duration) -> Result<Vec<QueueName>, BrokerError>;

    /// Waits as [`wait_for_due`](Self::wait_for_due) does and forwards the tasks that are due then; a broker may do both in one
    /// step. It may return without a moved task. Dropping the future is safe.
    ///
    /// # Errors
    ///
    /// The errors of [`wait_for_due`](Self::wait_for_due) and [`forward`](Self::forward).
    async fn wait_and_forward(
        &self,
        queues: &[QueueName],
        retries: RetryOrder,
        limit: Duration,
    ) -> Result<Forwarded, BrokerError> {
        let due = self.wait_for_due(queues, limit).await?;
        if due.is_empty() { Ok(Forwarded::default()) } else { self.forward(&due, retries).await }
    }

    /// Renews the lease of each run that still holds its task. Any answer but [`Settled::Ok`] means that the run is lost, and the
    /// server must stop it. Of an error it is not known whether that lease was renewed: a part of a cluster may answer while another does
    /// not.
    async fn extend(&self, runs: &[RunKey]) -> Vec<Result<Settled, BrokerError>>;

    /// Returns for each run whether the broker keeps that it was asked to stop, by [`Repair::end_orphan`](super::Repair::end_orphan) or
    /// by a tick that replaced its task. A server asks after each subscription to
    /// [`Presence::cancellations`](super::Presence::cancellations), because a request that is made while it does not listen comes by no
    /// other way. Of an error it is not known whether that run was asked. Default: no run, for a broker whose subscriptions go on by
    /// themselves.
    async fn asked_to_cancel(&self, runs: &[RunKey]) -> Vec<Result<bool, BrokerError>> {
        vec![Ok(false); runs.len()]
    }

    /// Extends each unique lock that its running task still holds, so that the lock lasts at least twenty leases from now on; for tasks
    /// that ask for it. A lock that has ended and is free is taken again. A lock of another task stays as it is, and a key that is not the
    /// task's own locks nothing.
    ///
    /// # Errors
    ///
    /// The broker failed; whether any lock was extended is unknown.
    async fn extend_locks(&self, locks: &[HeldLock]) -> Result<(), BrokerError>;

    /// Requeues tasks whose worker is gone at the head of pending, in the order in which they were taken, at most 100 per queue:
    /// `retried` stays, `crashes` + 1. A run of this crate is gone when its lease has passed (on SQLite also as soon as its
    /// server is dead); a Go run gets Go's own grace of 30 s more.
    ///
    /// # Errors
    ///
    /// The broker failed; tasks that were recovered before stay recovered.
    async fn recover(&self, queues: &[QueueName]) -> Result<Recovered, BrokerError>;

    /// Returns how long a caller must wait before it calls [`recover`](Self::recover) for `queues`. Either no lease that exists
    /// now lapses before; or many lapsed at once a moment ago, because the broker was away or its clock was set, and the servers
    /// that live need this time to extend theirs. Default: zero, for brokers whose `recover` can tell by itself.
    ///
    /// # Errors
    ///
    /// The broker cannot be asked.
    async fn until_lapse(&self, _queues: &[QueueName]) -> Result<Duration, BrokerError> {
        Ok(Duration::ZERO)
    }

    /// Repairs the traces of other programs' crashes, active tasks without a lease and ids without a task, and those of a clock that
    /// was set back: leases and deadlines of sets that are later than any clock can have given them now.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn sweep(&self, queue: &QueueName) -> Result<Swept, BrokerError>;

    /// Makes groups known that have tasks and that no server knows, and gives sets a deadline whose deadline was lost, as other
    /// programs may leave them; names queues that have waiting tasks and are not listed. One call is a part of a search through all keys, for all `queues` at once; of many servers that
    /// call it, only some search. Returns how many groups and sets were restored. Default: none, for brokers that cannot lose
    /// them.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn restore_groups(&self, _queues: &[QueueName]) -> Result<usize, BrokerError> {
        Ok(0)
    }

    /// Returns the queues of `policies` in which [`delete_expired`](Self::delete_expired), [`trim_archive`](Self::trim_archive)
    /// or [`reclaim_sets`](super::Groups::reclaim_sets) may have work, by one question about all of them, so that idle queues
    /// cost nothing. Default: all.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn worth_cleaning(&self, policies: &[ArchivePolicy]) -> Result<Vec<QueueName>, BrokerError> {
        Ok(policies.iter().map(|policy| policy.queue.clone()).collect())
    }

    /// Returns those of `queues` in which [`sweep`](Self::sweep) may have work. Default: all.
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

    /// Deletes at most `limit` archived tasks with their contents, oldest first: those archived `max_age` ago or earlier, and
    /// those beyond the newest `max_size`. Returns how many.
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

/// The limits of the archive of a queue, as [`Maintain::trim_archive`] takes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivePolicy {
    /// The queue.
    pub queue: QueueName,
    /// How long an archived task is kept at most.
    pub max_age: Duration,
    /// How many archived tasks are kept at most.
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

/// The end of pending at which a retry task that is due is inserted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum RetryOrder {
    /// Behind all pending tasks, as in Go's asynq.
    #[default]
    Last,
    /// Before all pending tasks; of several that are due at once, the one that was due first comes first.
    First,
}

/// The result of [`Maintain::forward`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// Tasks that became pending.
    pub moved: usize,
    /// Whether more tasks are due already.
    pub more: bool,
}

/// The result of [`Maintain::recover`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Tasks that are pending again; of each queue the next to be taken comes first.
    pub tasks: Vec<(QueueName, TaskId)>,
    /// Whether more tasks can be recovered already.
    pub more: bool,
}

/// The result of [`Maintain::sweep`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Active tasks that had no lease, or one that no clock can have given, and got a new one, so that recovery sees them unless a worker
    /// extends it.
    pub leases_restored: usize,
    /// Ids in active or pending without a task, removed.
    pub ghosts_removed: usize,
}
