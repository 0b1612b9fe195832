//! Ends a task whose run was lost.

use rusqlite::params;

use crate::{
    broker::{Changed, settle::shortened},
    task::{QueueName, TaskId, TaskMessage, TaskState},
};

use super::{
    super::{sql, tx::Tx},
    Subject,
};

/// Fails a task that is active although its lease has passed; its crashes stay counted. With the server and the run it
/// loses what its old run could settle it by.
pub(super) fn end(tx: &mut Tx<'_>, queue: &QueueName, id: &TaskId, error: &str) -> rusqlite::Result<Changed> {
    let Some(task) = Subject::find(&tx.view, queue, id)? else { return Ok(Changed::NotFound) };
    let Subject { seq, q, .. } = task;
    let now = tx.view.now;
    if task.state != TaskState::Active || task.at > now {
        return Ok(Changed::Unfit(task.state));
    }
    let error = shortened(error);
    let left = task.message(&tx.view)?.and_then(|bytes| TaskMessage::decode(bytes.into()).ok());
    // A task that nobody can read is not worth another try.
    let again = left.is_some_and(|message| task.retried < i64::from(message.retry));
    tx.note_failure(seq, error)?;
    if again {
        tx.view.execute(&sql::REPAIR_ORPHAN_RETRY, params![seq, now, error, now])?;
        tx.came(q, TaskState::Retry);
    } else {
        tx.view.execute(&sql::REPAIR_ORPHAN_ARCHIVE, params![seq, now, error])?;
        tx.free_lock_of_archived(q, task.lock.as_deref(), &task.id, &task.extra)?;
        tx.came(q, TaskState::Archived);
    }
    tx.left(q, TaskState::Active);
    tx.ended(q, true);
    Ok(Changed::Done)
}
