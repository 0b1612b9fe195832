//! Contract: changes that people make to tasks and queues.
//!
//! Go's tools change the same keys at the same time, so each step here is atomic and leaves every task in exactly one place. No
//! method touches an active task except [`end_orphan`](Repair::end_orphan), because the worker would not notice.

use bytes::Bytes;

use super::{BrokerError, Refused};
use crate::task::{GroupName, QueueName, TaskId, TaskState, equal_task};

/// Changes tasks and queues from outside of a worker. A task whose message cannot be read is changed as any other; only its payload
/// cannot be replaced, and as an orphan it is archived.
#[async_trait::async_trait]
pub trait Repair {
    /// Applies `action` to a task, in one atomic step; where `only` names a state, only if the task is in it, for callers that decided
    /// by an earlier look. [`Changed::Unfit`] with another state than `only` means that the task has moved; nothing was changed. For a
    /// task in a set that is being aggregated the answer is [`Changed::Unfit`], also after the deadline of the set, until
    /// [`reclaim_sets`](super::Groups::reclaim_sets) has released it; this holds for all methods of the trait.
    ///
    /// # Errors
    ///
    /// The broker failed. If the first send worked, a repeat answers [`Changed::Unfit`] with pending after
    /// [`Run`](BulkAction::Run) and with archived after [`Archive`](BulkAction::Archive), and [`Changed::NotFound`] after
    /// [`Delete`](BulkAction::Delete).
    async fn change_task(
        &self,
        queue: &QueueName,
        id: &TaskId,
        only: Option<TaskState>,
        action: BulkAction,
    ) -> Result<Changed, BrokerError>;

    /// Moves a pending, scheduled, retry, archived or aggregating task to another queue, in its state, with its due time, lock,
    /// counters, checkpoint and failures; a pending task goes to the end of the other queue, and waits there from now on. The key of the
    /// lock, `asynq:{queue}:…`, then names the other queue. A move to the task's own queue changes nothing and succeeds.
    ///
    /// In a Redis Cluster no step can see both queues. The task is therefore held in its queue for the time of the move, and on any
    /// Redis where a step failed: scheduled for the end of the year 9999, with the reason, so that no server runs it and no
    /// housekeeping deletes it. A crash between the steps neither loses nor doubles the task, and the same call continues the move.
    /// A move from the old queue to itself gives it up. Any other change of a held task answers [`Changed::Unfit`] with scheduled, because the other
    /// queue may hold it, too, and [`change_some`](Self::change_some) leaves it as it is.
    ///
    /// Go's tools change a held task all the same, as one that is scheduled. If the old queue has the task no more and the move
    /// did not take it out within the last hour, the same call answers [`Changed::Unfit`] with scheduled, because the task may
    /// have run there; a move from the other queue to itself then puts the held copy into its state. If another client has
    /// deleted either copy, [`Changed::NotFound`] may be the answer for a task that was there.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was changed, except if the broker failed: then the task may be held or moved.
    async fn move_task(&self, queue: &QueueName, id: &TaskId, to: &QueueName) -> Result<Changed, Refused>;

    /// Replaces the payload of a pending, scheduled, retry, archived or aggregating task, and its unique lock if the task holds
    /// one.
    ///
    /// # Errors
    ///
    /// [`EditError`]; nothing was changed.
    async fn edit_payload(&self, queue: &QueueName, id: &TaskId, edit: &PayloadEdit) -> Result<Changed, EditError>;

    /// Ends a task that is active although its lease has passed, so that no server runs it (an *orphan*); of an active task whose
    /// lease holds, it keeps that the run was asked to stop, which [`Maintain::asked_to_cancel`](super::Maintain::asked_to_cancel)
    /// returns, and answers [`Changed::Unfit`] with active. An orphan fails with `error`, is retried (due at once) or archived as its
    /// counters say, and counts as processed and failed. Its crashes are forgotten as at any failure. If its worker was only stopped,
    /// the worker's run is fenced.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn end_orphan(&self, queue: &QueueName, id: &TaskId, error: &str) -> Result<Changed, BrokerError>;

    /// Applies `action` to at most `limit` of the chosen tasks, in the order of the listing, in one atomic step; `limit` is at
    /// most 100. Call it again while [`BulkSlice::more`] is true.
    ///
    /// # Errors
    ///
    /// The broker failed. How much of this slice was done is unknown; a repeat continues.
    async fn change_some(
        &self,
        queue: &QueueName,
        chosen: &Chosen,
        action: BulkAction,
        limit: usize,
    ) -> Result<BulkSlice, BrokerError>;

    /// Deletes a queue that has no tasks any more: its counters, pause, groups and name, this crate's own keys but for those of its
    /// periodic entries, and a lock or set without tasks that another program left. Of a queue that was only paused the pause is
    /// deleted, whatever the answer. On Redis, if a client of another program enqueued to the queue within the last
    /// minute, its next task makes the queue listed again only after that minute.
    ///
    /// # Errors
    ///
    /// The broker failed; a repeat continues.
    async fn delete_queue(&self, queue: &QueueName) -> Result<QueueDeleted, BrokerError>;

    /// Frees the unique lock `key` of a queue, in one step, if the task `holder` still holds it; with `stuck` only if that task
    /// does not exist. Returns whether the lock was freed. An equal task may then be enqueued, whatever the holder does.
    ///
    /// # Errors
    ///
    /// The broker failed. A repeat answers `false` if the first send worked.
    async fn release_lock(
        &self,
        queue: &QueueName,
        key: &str,
        holder: &TaskId,
        stuck: bool,
    ) -> Result<bool, BrokerError>;
}

/// The result of a change to one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Changed {
    /// The change was made.
    Done,
    /// The queue has no such task.
    NotFound,
    /// The task is in this state, which does not allow the change; nothing was changed.
    Unfit(TaskState),
}

/// A choice of tasks of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    /// All tasks in this state: for aggregating those of all groups, for active none.
    InState(TaskState),
    /// All tasks that wait in this group.
    InGroup(GroupName),
}

impl Chosen {
    /// Returns the state of the chosen tasks.
    pub(crate) fn state(&self) -> TaskState {
        match self {
            Self::InState(state) => *state,
            Self::InGroup(_) => TaskState::Aggregating,
        }
    }
}

/// A change to one task, or to each of many. In bulk no completed task is run or archived ([`fits`](Self::fits)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BulkAction {
    /// Makes a scheduled, retry, archived, completed or aggregating task pending, at the end of its queue. Its attempts stay
    /// counted, but its crashes are forgotten: a task that took workers down gets a new chance. So is an expiry that has passed,
    /// which would archive the task again (Redis moves it to the end of the year 9999, which [`TaskInfo`](crate::TaskInfo) does not
    /// show), how its last run ended, since when no worker knew it, and how many attempts in a row were not a failure. It leaves its
    /// group for good, so that a retry does not return it to the group. A lock that it has lost is not taken again. A deadline that has
    /// passed stays: a worker archives the task again without a run.
    Run,
    /// Archives a pending, scheduled, retry, completed or aggregating task as it is. Its unique lock is freed unless the task's
    /// extra facts keep the lock until success.
    Archive,
    /// Deletes a task that is not active, with its contents, lock, result and failures.
    Delete,
}

impl BulkAction {
    /// Returns whether the action applies to tasks in `state`; asynq's bulk calls have the same rules.
    pub fn fits(self, state: TaskState) -> bool {
        use TaskState::{Active, Aggregating, Archived, Pending, Retry, Scheduled};
        match self {
            Self::Run => matches!(state, Scheduled | Retry | Archived | Aggregating),
            Self::Archive => matches!(state, Pending | Scheduled | Retry | Aggregating),
            Self::Delete => state != Active,
        }
    }
}

/// The result of one slice of a bulk call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BulkSlice {
    /// Tasks that were changed.
    pub changed: usize,
    /// Ids without a task that were removed from the list.
    pub ghosts: usize,
    /// Whether more tasks are chosen.
    pub more: bool,
}

/// The result of a request to delete a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QueueDeleted {
    /// The queue was deleted.
    Done,
    /// The queue has tasks, which are unchanged. If the first of them came during the call, the counters are already deleted; the pause is not.
    NotEmpty,
    /// There is no queue of this name.
    NotFound,
}

/// A new payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadEdit {
    /// The new bytes.
    pub payload: Bytes,
    /// The payload that is replaced; if the task has another one by now, nothing is changed. `None` replaces any payload.
    pub expected: Option<Bytes>,
    /// The key of the unique lock for the new payload. It is used only if the task has a lock, and takes the place of the old key
    /// with the time that is left; `None` keeps the old key. On Redis the key must begin with `asynq:{queue}:`, otherwise nothing
    /// is changed.
    pub unique_key: Option<String>,
}

/// The reason why a payload was not replaced.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// Another program changed the payload in the meantime.
    #[error("the payload has changed; read the task again")]
    Changed,
    /// Another task holds the lock of the new payload.
    #[error("{}", equal_task(holder.as_ref()))]
    Duplicate {
        /// The task that holds the lock, if the broker could tell.
        holder: Option<TaskId>,
    },
    /// The broker failed.
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

debug_as_text!(EditError);
