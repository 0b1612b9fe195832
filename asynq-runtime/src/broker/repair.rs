//! Contract: what people do to tasks and queues.
//!
//! Go's tools do the same things to the same keys at the same time; each step here is atomic and leaves every task in
//! exactly one place. Nothing here touches an active task: its worker would not know.

use bytes::Bytes;

use super::{BrokerError, BrokerErrorKind};
use crate::task::{GroupName, QueueName, TaskId, TaskState};

/// Changes tasks from outside.
#[async_trait::async_trait]
pub trait Repair {
    /// Makes a scheduled, retry, archived, completed or aggregating task pending, last in line. What it has tried stays
    /// counted, but for the crashes: a task that took workers down gets a new chance. It leaves its group for good, so
    /// that a retry does not lead back to it. A lock that it has lost it does not take again. A task in a set that is
    /// being aggregated is [`Changed::Unfit`], here and below.
    ///
    /// # Errors
    ///
    /// The broker failed; a repeat answers [`Changed::Unfit`] with pending if the first send worked.
    async fn run_task(&self, queue: &QueueName, id: &TaskId) -> Result<Changed, BrokerError>;

    /// Archives a pending, scheduled, retry, completed or aggregating task as it is; its unique lock is freed unless
    /// the task's extra facts keep it until success.
    ///
    /// # Errors
    ///
    /// The broker failed; a repeat answers [`Changed::Unfit`] with archived if the first send worked.
    async fn archive_task(&self, queue: &QueueName, id: &TaskId) -> Result<Changed, BrokerError>;

    /// Deletes a task that is not active, with everything that is its own: contents, lock, result, failures.
    ///
    /// # Errors
    ///
    /// The broker failed; a repeat answers [`Changed::NotFound`] if the first send worked.
    async fn delete_task(&self, queue: &QueueName, id: &TaskId) -> Result<Changed, BrokerError>;

    /// Does `action` to a task only if it is in `state`, in one atomic step, for callers who decided by what they saw a
    /// moment ago. [`Changed::Unfit`] with another state than `state` means that the task has moved; nothing was changed.
    ///
    /// Default: refuses, so that a broker without this check changes nothing by mistake.
    ///
    /// # Errors
    ///
    /// The broker failed or does not have this check; after a failure a repeat is answered as that of the plain call is.
    async fn change_in_state(
        &self,
        queue: &QueueName,
        id: &TaskId,
        state: TaskState,
        action: BulkAction,
    ) -> Result<Changed, BrokerError> {
        let _ = (queue, id, state, action);
        Err(BrokerError::new(
            BrokerErrorKind::Config,
            "this broker cannot change a task on condition of its state; use the call without a state",
        ))
    }

    /// Moves a pending, scheduled, retry, archived or aggregating task to another queue, in its state, with its due time,
    /// lock, counters and failures; a pending one goes last in line. Where no step can see both queues (Redis, because of
    /// Cluster) it is scheduled for the end of the year 9999 meanwhile, with the reason: nothing runs it there and no
    /// housekeeping deletes it. So a crash between the steps neither loses nor doubles it, and the same call goes on where
    /// it broke off. To its own queue it is already moved.
    ///
    /// # Errors
    ///
    /// [`MoveError`]; nothing was changed, except where the broker failed: then the task may be held or moved.
    async fn move_task(&self, queue: &QueueName, id: &TaskId, to: &QueueName) -> Result<Changed, MoveError>;

    /// Replaces the payload of a pending, scheduled, retry, archived or aggregating task, and with it its unique lock, if it
    /// holds one now.
    ///
    /// # Errors
    ///
    /// [`EditError`]; nothing was changed.
    async fn edit_payload(&self, queue: &QueueName, id: &TaskId, edit: &PayloadEdit) -> Result<Changed, EditError>;

    /// Ends a task that is active although its lease has passed, so that nobody runs it (an *orphan*): it fails with
    /// `error`, is retried (due at once) or archived as its counters say, counts as processed and failed, and the run of
    /// a worker that was only stopped is fenced. As at any failure its crashes are forgotten.
    /// [`Changed::Unfit`] with active means that its lease still holds.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn end_orphan(&self, queue: &QueueName, id: &TaskId, error: &str) -> Result<Changed, BrokerError>;

    /// Does `action` to at most `limit` (itself at most 100) of the tasks that are chosen, in the order of the listing, in
    /// one atomic step. Call it again while [`BulkSlice::more`] says so.
    ///
    /// # Errors
    ///
    /// The broker failed; how much of this slice was done is unknown, and a repeat goes on.
    async fn change_some(
        &self,
        queue: &QueueName,
        chosen: &Chosen,
        action: BulkAction,
        limit: usize,
    ) -> Result<BulkSlice, BrokerError>;

    /// Deletes everything of a queue whose tasks are all gone: counters, pause, groups, our own keys, its name. What
    /// was left by others, a lock or a set without tasks, goes too. On Redis, a broker of another program that enqueued to
    /// it within the last minute lists its name again only when that minute is over.
    ///
    /// # Errors
    ///
    /// The broker failed; a repeat goes on.
    async fn delete_queue(&self, queue: &QueueName) -> Result<QueueDeleted, BrokerError>;

    /// Frees the unique lock `key` of a queue, in one step, if the task `holder` still holds it; with `stuck` only if there is
    /// no such task. Whether it was freed. An equal task may be enqueued then, whatever the holder does.
    ///
    /// # Errors
    ///
    /// The broker failed; a repeat answers `false` if the first send worked.
    async fn release_lock(
        &self,
        queue: &QueueName,
        key: &str,
        holder: &TaskId,
        stuck: bool,
    ) -> Result<bool, BrokerError>;
}

/// What became of a request about one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Changed {
    /// Done as asked.
    Done,
    /// No such task in this queue.
    NotFound,
    /// It is in this state, in which that cannot be done; nothing was changed.
    Unfit(TaskState),
}

/// Which tasks of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    /// All in this state; aggregating means those of all groups, active is none.
    InState(TaskState),
    /// All that wait in this group.
    InGroup(GroupName),
}

/// What to do with each of them, as the calls for one task do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BulkAction {
    /// Make it pending: scheduled, retry, archived, aggregating.
    Run,
    /// Archive it: pending, scheduled, retry, aggregating.
    Archive,
    /// Delete it: all but active.
    Delete,
}

impl BulkAction {
    /// Whether tasks in `state` can be treated so; asynq's bulk calls have the same rules.
    pub fn fits(self, state: TaskState) -> bool {
        use TaskState::{Active, Aggregating, Archived, Pending, Retry, Scheduled};
        match self {
            Self::Run => matches!(state, Scheduled | Retry | Archived | Aggregating),
            Self::Archive => matches!(state, Pending | Scheduled | Retry | Aggregating),
            Self::Delete => state != Active,
        }
    }
}

/// What one slice of a bulk call did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BulkSlice {
    /// Tasks that were changed.
    pub changed: usize,
    /// Ids without a task that were taken off the list.
    pub ghosts: usize,
    /// Whether more tasks are chosen.
    pub more: bool,
}

/// What became of a request to delete a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QueueDeleted {
    /// It is gone.
    Done,
    /// It has tasks, and they are as they were. What counted them is gone where the first one came in meanwhile.
    NotEmpty,
    /// There is no queue of this name.
    NotFound,
}

/// A new payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadEdit {
    /// The new bytes.
    pub payload: Bytes,
    /// The bytes that it replaces: if they are others by now, nothing is changed. `None` = whatever is there.
    pub expected: Option<Bytes>,
    /// The key of the unique lock that goes with the new payload. It is used only where the task has a lock, and
    /// replaces the old one with the time that one had left; `None` keeps the old key. On Redis a key of the queue, or
    /// nothing is changed: it begins with `asynq:{queue}:`.
    pub unique_key: Option<String>,
}

/// Why a payload was not replaced.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// Another program changed it meanwhile.
    #[error("the payload has changed; read the task again")]
    Changed,
    /// Another task holds the lock of the new payload.
    #[error("a task with the same unique key is already waiting or running")]
    Duplicate {
        /// The task that holds it, where the broker could tell.
        holder: Option<TaskId>,
    },
    /// The broker failed.
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

/// Why a task was not moved.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// Its id is taken in the other queue.
    #[error("the task id is taken in the other queue")]
    IdConflict,
    /// An equal task holds the unique lock in the other queue.
    #[error("a task with the same unique key is already waiting or running in the other queue")]
    Duplicate {
        /// The task that holds it, where the broker could tell.
        holder: Option<TaskId>,
    },
    /// The broker failed.
    #[error(transparent)]
    Broker(#[from] BrokerError),
}
