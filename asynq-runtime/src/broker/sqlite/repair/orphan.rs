//! Ends a task whose run was lost.

use rusqlite::params;

use crate::{
    broker::{Changed, settle::shortened},
    task::{QueueName, TaskId, TaskMessage, TaskState},
};

use super::super::{sql, stored_task::StoredTask, tx::Tx};

/// Fails a task that is active although its lease has passed. The lost run is fenced when it settles late: the task is not active.
pub(super) fn end(tx: &mut Tx<'_>, queue: &QueueName, id: &TaskId, error: &str) -> rusqlite::Result<Changed> {
    let Some(task) = StoredTask::find(&tx.view, queue, id.as_str())? else { return Ok(Changed::NotFound) };
    let StoredTask { seq, q, .. } = task;
    let now = tx.view.now;
    if task.state != TaskState::Active || task.at > now {
        return Ok(Changed::Unfit(task.state));
    }
    // A later tick or enqueue took its place, and nothing of it runs again.
    if task.extra.replaced {
        tx.delete(&task.to_delete())?;
        tx.ended(q, true);
        return Ok(Changed::Done);
    }
    let error = shortened(error);
    let message = task.message(&tx.view)?;
    tx.note_failure(seq, error)?;
    if message.as_ref().is_ok_and(|message| task.retried < i64::from(message.retry)) {
        tx.view.execute(&sql::repair::ORPHAN_RETRY, params![seq, now, error, now])?;
        tx.came(q, TaskState::Retry);
    } else {
        tx.view.execute(&sql::repair::ORPHAN_ARCHIVE, params![seq, now, error])?;
        tx.free_lock_of_archived(q, task.lock.as_deref(), &task.id, &task.extra)?;
        // An outcome replaces a message that cannot be read in the same way.
        if let Err(bad) = message {
            let stand_in = TaskMessage::in_place_of(bad.raw, id, queue).encode();
            tx.view.execute(&sql::body::SET_MESSAGE, params![seq, stand_in])?;
        }
        tx.came(q, TaskState::Archived);
    }
    tx.left(q, TaskState::Active);
    tx.ended(q, true);
    Ok(Changed::Done)
}
