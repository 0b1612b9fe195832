//! The errors of the inspector; each text says what to do instead.

use std::fmt;

use super::BulkReport;
use crate::{
    broker::{BrokerError, BulkAction, EditError, Refused},
    job::{CodecError, PayloadError},
    task::{GroupName, InvalidName, QueueName, TaskId, TaskState, equal_task},
};

/// A request to an [`Inspector`](super::Inspector) that failed. Nothing was changed, except where a variant says so.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    /// The queue does not exist.
    #[error("queue `{queue}` was not found")]
    QueueNotFound {
        /// The queue.
        queue: QueueName,
    },
    /// The numbers of this queue cannot be read. Other queues may be sound.
    #[error("queue `{queue}` cannot be read: {source}")]
    UnreadableQueue {
        /// The queue.
        queue: QueueName,
        /// The reason.
        source: BrokerError,
    },
    /// The queue has no such task.
    #[error("task `{id}` was not found in queue `{queue}`")]
    TaskNotFound {
        /// The queue.
        queue: QueueName,
        /// The id.
        id: TaskId,
    },
    /// The state of the task does not allow the change.
    #[error("cannot {change} task `{id}`: it {}", change.instead(*state))]
    Unfit {
        /// The change.
        change: TaskChange,
        /// The id.
        id: TaskId,
        /// The state of the task.
        state: TaskState,
    },
    /// The task has left the state in which the caller saw it.
    #[error("did not {change} task `{id}`: it is {found} now, not {expected}; look at it again")]
    Moved {
        /// The change.
        change: TaskChange,
        /// The id.
        id: TaskId,
        /// The state that the caller expected.
        expected: TaskState,
        /// The state of the task.
        found: TaskState,
    },
    /// The state does not allow the change of all tasks at once.
    #[error("cannot {change} all {state} tasks: each {}", change.instead(*state))]
    UnfitState {
        /// The change.
        change: TaskChange,
        /// The state.
        state: TaskState,
    },
    /// A parameter of the request is not valid.
    #[error("invalid `{what}`: {reason}")]
    Request {
        /// The parameter.
        what: &'static str,
        /// The reason, with a valid value.
        reason: String,
    },
    /// The name of the queue is not valid.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The id is taken in the queue that the task should move to.
    #[error("task id `{id}` is taken in queue `{queue}`")]
    IdConflict {
        /// The queue.
        queue: QueueName,
        /// The id.
        id: TaskId,
    },
    /// Another task holds the unique lock that this task would need.
    #[error("{}", equal_task(holder.as_ref()))]
    Duplicate {
        /// The task that holds the lock, if the broker could tell.
        holder: Option<TaskId>,
    },
    /// The task belongs to another job.
    #[error("task `{id}` is a `{found}`, not a `{expected}`")]
    OtherJob {
        /// The id.
        id: TaskId,
        /// The job that was asked for.
        expected: &'static str,
        /// The task's type.
        found: String,
    },
    /// The payload of the task cannot be read as the job's arguments.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// The task has a payload of the default codec, and the new payload does not begin with its header.
    #[error(
        "task `{id}` has a payload of the default codec (postcard), which only the program of `{job}` can write: other bytes \
         would be archived when a worker reads them; edit it on the dashboard of its worker, or by \
         `inspector.edit::<{job}>(..)`"
    )]
    HeaderLost {
        /// The id.
        id: TaskId,
        /// The task's type.
        job: String,
    },
    /// The new arguments do not have the shape of the task's.
    #[error("the arguments do not fit `{job}`: {reason}; write {shape}")]
    Misfit {
        /// The id.
        id: TaskId,
        /// The task's type.
        job: String,
        /// The place that does not fit, and the value that is expected there.
        reason: String,
        /// The shape in one line.
        shape: String,
    },
    /// The task has a payload of the default codec, and its shape is not known.
    #[error(
        "the shape of task `{id}` is not known ({reason}), so only the program of `{job}` can write its arguments: edit it on \
         the dashboard of its worker, or by `inspector.edit::<{job}>(..)`"
    )]
    NoShape {
        /// The id.
        id: TaskId,
        /// The task's type.
        job: String,
        /// The reason.
        reason: String,
    },
    /// The new arguments cannot be encoded.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The new payload is larger than the client allows.
    #[error("the payload would have {size} bytes, more than the limit of {limit}; raise the client's `payload_limit`")]
    TooLarge {
        /// The size of the new payload in bytes.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// Other programs changed the payload at every try of an edit.
    #[error("task `{id}` was changed by others at every one of {tries} tries; try again later")]
    Contended {
        /// The id.
        id: TaskId,
        /// How often the edit was tried.
        tries: usize,
    },
    /// The archive cannot keep all tasks that were to be archived; a server would delete the oldest.
    #[error(
        "the archive of queue `{queue}` keeps {limit} tasks: its {beyond} oldest would be deleted, so nothing was archived; \
         `.beyond_archive()` allows it"
    )]
    BeyondArchive {
        /// The queue.
        queue: QueueName,
        /// Most tasks that its archive keeps.
        limit: u64,
        /// How many archived tasks would be deleted.
        beyond: u64,
    },
    /// The queue has tasks.
    #[error("queue `{queue}` still has tasks ({tasks}); delete it with `Force::Yes` to delete them too")]
    QueueNotEmpty {
        /// The queue.
        queue: QueueName,
        /// How many tasks the queue has.
        tasks: u64,
    },
    /// The queue has running tasks.
    #[error("queue `{queue}` has {active} running tasks; pause it, and wait for them or cancel them")]
    QueueActive {
        /// The queue.
        queue: QueueName,
        /// How many running tasks the queue has.
        active: u64,
    },
    /// Other programs enqueued to the queue as fast as its tasks were deleted, or ran a task of it meanwhile; the old ones are deleted. Or it has tasks that no person
    /// can delete now: of a set that is being aggregated, for two minutes at most, or of a move that broke off.
    #[error(
        "queue `{queue}` is not empty after {deleted} tasks were deleted: stop its producers first, and wait for tasks that run; \
         tasks that are being aggregated end within two minutes, and a move that broke off has to be made again"
    )]
    QueueRefilled {
        /// The queue.
        queue: QueueName,
        /// How many tasks were deleted.
        deleted: u64,
    },
    /// The broker failed in the middle of many tasks. The changes in the report are made, and where the broker did not answer those of
    /// one more step may be; repeat the call to continue.
    #[error("stopped after {} tasks{}: {source}; ask again to go on", done.changed, unknown(source))]
    Interrupted {
        /// The tasks that were changed before.
        done: BulkReport,
        /// The error of the broker.
        source: BrokerError,
    },
    /// The broker failed. Where the error [`is_ambiguous`](BrokerError::is_ambiguous), the change may have been made all the same.
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

debug_as_text!(InspectError);

/// Returns what is not known of the step of a bulk that failed.
fn unknown(source: &BrokerError) -> &'static str {
    if source.is_ambiguous() { ", and up to 100 more may be changed" } else { "" }
}

impl InspectError {
    /// Returns whether the queue or the task does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::QueueNotFound { .. } | Self::TaskNotFound { .. })
    }

    /// Returns whether the broker did not answer, so that a later try may work.
    pub fn is_unavailable(&self) -> bool {
        matches!(
            self,
            Self::Broker(error) | Self::Interrupted { source: error, .. } | Self::UnreadableQueue { source: error, .. }
                if error.is_unavailable()
        )
    }

    pub(super) fn blank(what: &'static str) -> Self {
        Self::Request { what, reason: "it must not be blank".into() }
    }

    pub(super) fn not_moved(error: Refused, to: &QueueName, id: &TaskId) -> Self {
        match error {
            Refused::IdConflict => Self::IdConflict { queue: to.clone(), id: id.clone() },
            Refused::Duplicate { holder } => Self::Duplicate { holder },
            Refused::Broker(error) => Self::Broker(error),
        }
    }

    pub(super) fn not_edited(error: EditError, id: &TaskId, tries: usize) -> Self {
        match error {
            EditError::Changed => Self::Contended { id: id.clone(), tries },
            EditError::Duplicate { holder } => Self::Duplicate { holder },
            EditError::Broker(error) => Self::Broker(error),
        }
    }

    pub(super) fn no_such_group(queue: &QueueName, group: &GroupName) -> Self {
        Self::Request { what: "group", reason: format!("queue `{queue}` has no tasks in a group `{group}`") }
    }
}

/// A change to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskChange {
    /// Makes the task pending.
    Run,
    /// Archives the task.
    Archive,
    /// Deletes the task.
    Delete,
    /// Moves the task to another queue.
    Move,
    /// Replaces the payload of the task.
    Edit,
}

impl TaskChange {
    pub(super) fn of(action: BulkAction) -> Self {
        match action {
            BulkAction::Run => Self::Run,
            BulkAction::Archive => Self::Archive,
            BulkAction::Delete => Self::Delete,
        }
    }

    /// The reason why the change does not apply to a task in `state`, and the change that does; the task is the subject.
    fn instead(self, state: TaskState) -> &'static str {
        match (self, state) {
            (Self::Run, TaskState::Active) => "is running already",
            (Self::Run, TaskState::Pending) => "is pending already",
            (Self::Archive, TaskState::Archived) => "is archived already",
            (Self::Run | Self::Archive, TaskState::Completed) => "has succeeded; do so one by one if you mean it",
            (_, TaskState::Active) => "is running; cancel it instead, or wait for its end",
            // A task that runs again does so at once, with its old arguments and in its old queue.
            (Self::Move | Self::Edit, TaskState::Completed) => "has succeeded; enqueue a new one instead",
            (Self::Run | Self::Archive | Self::Delete | Self::Move | Self::Edit, TaskState::Scheduled) => {
                "is on its way between two queues: from the one that the move was called with, repeat it, or give it up by a move to \
                 that same queue; if the repeat is refused, too, another program may have run or deleted it there, and a move from the \
                 other queue to itself releases it all the same"
            }
            (_, TaskState::Aggregating) => "is in a set that a worker aggregates now; try again when that has ended",
            _ => "is in a state that does not allow it",
        }
    }
}

impl fmt::Display for TaskChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Run => "run",
            Self::Archive => "archive",
            Self::Delete => "delete",
            Self::Move => "move",
            Self::Edit => "edit",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::BrokerErrorKind;

    #[test]
    fn the_error_of_an_unfit_state_says_what_to_do_instead() {
        for (change, state, expected) in [
            (TaskChange::Run, TaskState::Active, "cannot run task `t1`: it is running already"),
            (TaskChange::Run, TaskState::Pending, "cannot run task `t1`: it is pending already"),
            (TaskChange::Archive, TaskState::Archived, "cannot archive task `t1`: it is archived already"),
            (
                TaskChange::Archive,
                TaskState::Active,
                "cannot archive task `t1`: it is running; cancel it instead, or wait for its end",
            ),
            (
                TaskChange::Delete,
                TaskState::Active,
                "cannot delete task `t1`: it is running; cancel it instead, or wait for its end",
            ),
            (
                TaskChange::Edit,
                TaskState::Completed,
                "cannot edit task `t1`: it has succeeded; enqueue a new one instead",
            ),
            (
                TaskChange::Move,
                TaskState::Completed,
                "cannot move task `t1`: it has succeeded; enqueue a new one instead",
            ),
            (
                TaskChange::Run,
                TaskState::Scheduled,
                "cannot run task `t1`: it is on its way between two queues: from the one that the move was called with, repeat it, or \
                 give it up by a move to that same queue; if the repeat is refused, too, another program may have run or deleted it \
                 there, and a move from the other queue to itself releases it all the same",
            ),
        ] {
            let error = InspectError::Unfit { change, id: TaskId::from_wire("t1"), state };
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn only_a_broker_that_does_not_answer_is_worth_another_try() {
        let down = BrokerError::new(BrokerErrorKind::Timeout, "no answer in 500 ms");
        let interrupted = InspectError::Interrupted {
            done: BulkReport { changed: 300, ..BulkReport::default() },
            source: down.clone(),
        };
        let text =
            "stopped after 300 tasks, and up to 100 more may be changed: no answer in 500 ms; ask again to go on";
        assert_eq!(interrupted.to_string(), text);
        assert!(interrupted.is_unavailable() && InspectError::from(down).is_unavailable());
        assert!(!InspectError::blank("queue").is_unavailable());
        assert!(!InspectError::from(BrokerError::new(BrokerErrorKind::Full, "full")).is_unavailable());
    }
}
