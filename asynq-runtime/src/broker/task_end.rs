//! The result of a wait for the end of a task.

mod retries;
mod waiter;

pub(crate) use self::retries::Retries;
pub(super) use self::waiter::{EndSource, wait_for_end};
use crate::task::{TaskInfo, TaskState};

/// The result of a wait for the end of a task.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TaskEnd {
    /// The task is completed or archived; it is returned as it is stored now.
    Stored(Box<TaskInfo>),
    /// The task existed while this call waited, with [`Extra::awaited`](crate::task::Extra::awaited), and was removed without an
    /// end: a person or a program deleted it, a Go worker revoked it, or an equal task took its lock while it ran without success.
    Deleted,
    /// The task does not exist: it ended and was not kept, its retention is over, it was deleted, or it never existed.
    Gone,
    /// The task had not ended when the time was over; it was last seen in this state.
    NotYet(TaskState),
}

pub(super) fn has_ended(state: TaskState) -> bool {
    matches!(state, TaskState::Completed | TaskState::Archived)
}
