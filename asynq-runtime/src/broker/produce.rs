//! Contract: put tasks into a queue (docs/design/wire.md#enqueue).

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::BrokerError;
use crate::task::{Extra, GroupName, QueueName, TaskId, TaskMessage, TaskState};

/// Puts new tasks where they belong.
#[async_trait::async_trait]
pub trait Produce {
    /// Stores each task as scheduled when its time is later than the broker's now, else as aggregating when it has a group
    /// (which becomes known), else as pending; and makes its queue known to Go's tools. A scheduled task with a group goes
    /// to its group when it is due. One outcome per item: a refused item never affects its neighbours.
    ///
    /// An id is taken as long as a task of that id exists in the queue, in any state. A unique lock is looked at before
    /// it is taken, so that an id conflict leaves none behind. A lock that bears the task's own id is what a crash left
    /// behind, for no task of this id exists: it is taken over, with the time of the new task.
    ///
    /// A task that [replaces](NewTask::replaces) an equal one, in one step with the lock, by where the lock's holder is:
    ///
    /// - pending, scheduled or in retry: that task keeps its id and takes the new message, options and time, and the lock begins anew
    ///   with the time. Nothing of its attempts stays: no retry spent, no crash, failure, checkpoint or result. One that is pending and
    ///   due at once keeps its turn. The answer names it ([`Placed::replaced`]).
    /// - active: the new task is stored beside it and takes the lock over. Whatever would run the active one again deletes it, as
    ///   one that a tick of its schedule replaced; a success ends it as any other.
    /// - anywhere else (archived with its lock, in a group or a set, on its way to another queue): the new task is refused as a duplicate.
    ///
    /// Several of one call come one after the other, in their order.
    ///
    /// Calls of several tasks of one client at the same time may travel together (group commit). A repeat after a lost
    /// answer is the broker's own: it recognises its first send by the id and message and reports it as placed.
    async fn enqueue(&self, batch: Vec<NewTask>) -> Vec<Result<Placed, Refused>>;
}

/// A task on its way in.
#[derive(Debug, Clone)]
pub struct NewTask {
    /// What is stored. `message.id` and `message.queue` equal `id` and `queue`; `message.unique_key` the lock's key.
    pub message: TaskMessage,
    /// Its queue.
    pub queue: QueueName,
    /// Its id.
    pub id: TaskId,
    /// Whether we made the id: then a conflict on a repeat can only be our own first send.
    pub id_is_ours: bool,
    /// When it should run.
    pub when: When,
    /// The group that it waits in to be aggregated; `message.group_key` equals it.
    pub group: Option<GroupName>,
    /// The lock that must be free.
    pub unique: Option<UniqueLock>,
    /// What it does with the holder of the lock instead of being refused; needs a lock, and no group. Ticks and what is made of a
    /// group replace nobody.
    pub replaces: Option<Replaces>,
    /// What the message cannot carry.
    pub extra: Extra,
}

/// How a task replaces an equal one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replaces {
    /// The task is due at most so long after the first of those that replaced each other while it waited, whatever its own
    /// time; whole milliseconds. `None` for no bound.
    pub within: Option<Duration>,
}

/// When a task should run, by the broker's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// As soon as a worker is free.
    Now,
    /// After this time.
    In(Duration),
    /// At this instant, kept to the millisecond, rounded up; an instant that has passed means now.
    At(DateTime<Utc>),
}

/// Unix milliseconds of an instant, rounded up: nothing may run early. Chrono's last instant stays within its calendar.
pub(crate) fn due_ms(at: DateTime<Utc>) -> i64 {
    let up = i64::from(!at.timestamp_subsec_nanos().is_multiple_of(1_000_000));
    at.timestamp_millis().saturating_add(up).min(DateTime::<Utc>::MAX_UTC.timestamp_millis())
}

/// A lock that at most one waiting or running task holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueLock {
    /// Full key, `asynq:{queue}:unique:type:md5`.
    pub key: String,
    /// How long it is held at most; at least 1 s, whole seconds. For a scheduled task it starts when the task is due.
    pub ttl: Duration,
}

/// Where an accepted task is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// [`TaskState::Pending`], [`TaskState::Scheduled`] or [`TaskState::Aggregating`].
    pub state: TaskState,
    /// When it is due, by the broker's clock; for one in a group, when it joined it.
    pub process_at: DateTime<Utc>,
    /// The task that was there already and has the new arguments now; `None` for a new task.
    pub replaced: Option<TaskId>,
}

/// Why a task was not accepted. Nothing of it is stored.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Refused {
    /// The id is taken in this queue.
    #[error("the task id is taken in this queue")]
    IdConflict,
    /// Another task holds the unique lock.
    #[error("a task with the same unique key is already waiting or running")]
    Duplicate {
        /// The task that holds it, where the broker could tell.
        holder: Option<TaskId>,
    },
    /// The broker failed. For [`is_unavailable`](BrokerError::is_unavailable) errors the task may be stored all the same.
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

#[cfg(all(test, any(feature = "redis", feature = "sqlite")))]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_never_moved_forward_in_time() {
        for (ns, ms) in [(1_000_000, 1), (1_000_001, 2), (1_999_999, 2), (0, 0), (-1, 0), (-1_000_001, -1)] {
            assert_eq!(due_ms(DateTime::from_timestamp_nanos(ns)), ms, "{ns}");
        }
        let last = DateTime::<Utc>::MAX_UTC;
        assert_eq!(due_ms(last), last.timestamp_millis());
    }
}
