//! Contract: put tasks into a queue (docs/design/wire.md#enqueue).

use std::{iter::Peekable, time::Duration};

use chrono::{DateTime, Utc};

use super::{BrokerError, CALL_BYTES};
use crate::task::{Extra, GroupName, QueueName, TaskId, TaskMessage, TaskState, equal_task};

/// Stores new tasks.
#[async_trait::async_trait]
pub trait Produce {
    /// Stores each task as scheduled if its time is later than the broker's now, else as aggregating if it has a group, else as
    /// pending. The queue becomes known to Go's tools, and the group to the servers that aggregate. A scheduled task with a group
    /// joins the group when it is due. Returns one outcome per item; a refused item never affects its neighbours.
    ///
    /// An id is taken as long as a task with that id exists in the queue, in any state. The unique lock is taken after the id was
    /// checked, so an id conflict leaves no lock behind. A lock whose holder does not exist was left by a crash, as one with the
    /// task's own id always was: the new task takes it over, with its own time.
    ///
    /// A task that [replaces](NewTask::replaces) an equal one does so in one step with the lock. The effect depends on the task
    /// that holds the lock:
    ///
    /// - pending, scheduled or in retry: that task keeps its id and takes the new message, options and time, and the lock begins
    ///   anew with the new time. Its attempts are forgotten: spent retries, crashes, failures, checkpoint and result. A task that is
    ///   awaited stays so, with a retention of a minute at least. A pending task whose new time is due at once keeps its position in
    ///   the queue. The answer names the task ([`Placed::replaced`]).
    /// - active: the new task is stored beside it and takes the lock over. The run is not asked to stop. An outcome that would retry,
    ///   archive or requeue the active task deletes it instead, as with a task that a tick of its schedule replaced; after a crash,
    ///   the server that takes the task deletes it. A success ends it as any other.
    /// - otherwise (archived with its lock, in a group or a set, scheduled to join a group, on its way to another queue): the new task
    ///   is refused as a duplicate.
    ///
    /// Several such tasks in one call are applied one after the other, in their order.
    ///
    /// Calls that one client makes at the same time may travel together (group commit). After a lost answer the broker repeats
    /// the call itself: it recognises its first send by the id and message, and reports the task as placed.
    ///
    /// The broker takes the tasks when it sends them, so that the caller makes the next ones while the broker stores those before. It
    /// takes all of them, whatever fails, and none while it holds a lock.
    async fn enqueue_each(&self, tasks: &mut (dyn Iterator<Item = NewTask> + Send)) -> Vec<Result<Placed, Refused>>;

    /// Stores the tasks of a list, as [`enqueue_each`](Self::enqueue_each) does.
    async fn enqueue(&self, batch: Vec<NewTask>) -> Vec<Result<Placed, Refused>> {
        self.enqueue_each(&mut batch.into_iter()).await
    }
}

/// Most tasks that a broker stores in one step; a longer call is cut, so that it shares the broker with others.
pub(crate) const PART: usize = 256;

/// Takes as many of the next tasks as one step stores: at most [`PART`] tasks and [`CALL_BYTES`], but for a single task that is larger.
pub(crate) fn part<T>(tasks: &mut Peekable<impl Iterator<Item = T>>, bytes_of: impl Fn(&T) -> usize) -> Vec<T> {
    let (mut part, mut bytes) = (Vec::new(), 0);
    while let Some(task) =
        tasks.next_if(|next| part.is_empty() || part.len() < PART && bytes + bytes_of(next) <= CALL_BYTES)
    {
        bytes += bytes_of(&task);
        part.push(task);
    }
    part
}

/// A task to enqueue.
#[derive(Debug, Clone)]
pub struct NewTask {
    /// The message to store. `message.id` and `message.queue` equal `id` and `queue`; `message.unique_key` equals the key of the
    /// lock.
    pub message: TaskMessage,
    /// The queue of the task.
    pub queue: QueueName,
    /// The id of the task.
    pub id: TaskId,
    /// Whether the client generated the id. A conflict on a repeat can then only be the client's own first send.
    pub id_is_ours: bool,
    /// When the task should run.
    pub when: When,
    /// The group in which the task waits to be aggregated; `message.group_key` equals it.
    pub group: Option<GroupName>,
    /// The unique lock that the task takes; another task must not hold it.
    pub unique: Option<UniqueLock>,
    /// How the task replaces the holder of the lock instead of being refused. It needs a lock and no group. `None` for the tasks
    /// of ticks and for those made of a group.
    pub replaces: Option<Replaces>,
    /// Facts that asynq's message has no field for.
    pub extra: Extra,
}

/// How a task replaces an equal one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replaces {
    /// Upper bound of the delay, whole milliseconds: the task is due at most this long after the first of the tasks that replaced
    /// each other while they waited, whatever its own time; a first one of a time to come, because the clock was set back since,
    /// counts as of now. `None` for no bound.
    pub within: Option<Duration>,
}

/// When a task should run, by the broker's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// As soon as a worker is free.
    Now,
    /// After this time.
    In(Duration),
    /// At this instant, rounded up to the millisecond; an instant that has passed means now.
    At(DateTime<Utc>),
}

/// Unix milliseconds of an instant, rounded up, because no task may run early. The result stays within chrono's calendar.
pub(crate) fn due_ms(at: DateTime<Utc>) -> i64 {
    let up = i64::from(!at.timestamp_subsec_nanos().is_multiple_of(1_000_000));
    at.timestamp_millis().saturating_add(up).min(DateTime::<Utc>::MAX_UTC.timestamp_millis())
}

/// A lock that at most one waiting or running task holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueLock {
    /// The full key, `asynq:{queue}:unique:type:md5`.
    pub key: String,
    /// How long the lock is held at most: whole seconds, at least 1 s. For a scheduled task the time starts when the task is due.
    pub ttl: Duration,
}

/// The place of an accepted task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// [`TaskState::Pending`], [`TaskState::Scheduled`] or [`TaskState::Aggregating`].
    pub state: TaskState,
    /// When the task is due, by the broker's clock; for a task in a group, when it joined the group.
    pub process_at: DateTime<Utc>,
    /// The id of the waiting task that took the new message; `None` for a new task.
    pub replaced: Option<TaskId>,
}

/// The reason why a queue did not accept a task that was enqueued or moved there. Nothing of it is stored in that queue.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The id is taken in this queue.
    #[error("the task id is taken in this queue")]
    IdConflict,
    /// Another task holds the unique lock.
    #[error("{}", equal_task(holder.as_ref()))]
    Duplicate {
        /// The task that holds the lock, if the broker could tell.
        holder: Option<TaskId>,
    },
    /// The broker failed. Where the error [`is_ambiguous`](BrokerError::is_ambiguous), the task may be stored all the same.
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

debug_as_text!(Refused);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_call_is_stored_in_parts_of_so_many_tasks_and_bytes() {
        let sizes = |bytes: &[usize]| -> Vec<usize> {
            let mut tasks = bytes.iter().peekable();
            std::iter::from_fn(|| Some(part(&mut tasks, |bytes| **bytes).len()).filter(|&size| size > 0)).collect()
        };
        assert_eq!(sizes(&[]), [] as [usize; 0]);
        assert_eq!(sizes(&[10; 600]), [PART, PART, 88]);
        assert_eq!(sizes(&[CALL_BYTES / 4; 10]), [4, 4, 2]);
        assert_eq!(sizes(&[10, CALL_BYTES, 10, CALL_BYTES * 2, 10, 10]), [1, 1, 1, 1, 2]);
    }

    #[test]
    fn an_instant_is_never_moved_forward_in_time() {
        for (ns, ms) in [(1_000_000, 1), (1_000_001, 2), (1_999_999, 2), (0, 0), (-1, 0), (-1_000_001, -1)] {
            assert_eq!(due_ms(DateTime::from_timestamp_nanos(ns)), ms, "{ns}");
        }
        let last = DateTime::<Utc>::MAX_UTC;
        assert_eq!(due_ms(last), last.timestamp_millis());
    }
}
