//! Replaces a payload, and the unique lock that goes with it.

use rusqlite::params;

use crate::{
    broker::{BrokerError, BrokerErrorKind, Changed, EditError, PayloadEdit},
    task::{QueueName, TaskId, UndecodableMessage},
};

use super::super::{produce::take_lock, sql, stored_task::StoredTask, tx::Tx};

/// Replaces the payload of a task. All reasons to refuse the edit are looked at before anything is written.
pub(super) fn edit(
    tx: &Tx<'_>,
    queue: &QueueName,
    id: &TaskId,
    edit: &PayloadEdit,
) -> rusqlite::Result<Result<Changed, EditError>> {
    let Some(task) = StoredTask::find(&tx.view, queue, id.as_str())? else { return Ok(Ok(Changed::NotFound)) };
    if !task.can_move() {
        return Ok(Ok(Changed::Unfit(task.state)));
    }
    let mut message = match task.message(&tx.view)? {
        Ok(message) => message,
        Err(error) => return Ok(Err(unreadable(&error, id).into())),
    };
    if edit.expected.as_ref().is_some_and(|expected| *expected != message.payload) {
        return Ok(Err(EditError::Changed));
    }
    if let Some(new) = &edit.unique_key
        && task.lock.as_ref().is_some_and(|old| new != old)
    {
        if let Some((_, until)) = task.held_lock(&tx.view)?
            && let Err(holder) = take_lock(&tx.view, task.q, new, &task.id, until)?
        {
            return Ok(Err(EditError::Duplicate { holder }));
        }
        // The row of a lock that has ended goes, too: no later step deletes it, because the task has another key by then.
        tx.free_lock(task.q, task.lock.as_deref(), &task.id)?;
        // A task that holds no lock any more takes none, but its run may take that of its key again.
        tx.view.execute(&sql::repair::SET_LOCK, params![task.seq, new])?;
        message.unique_key.clone_from(new);
    }
    message.payload = edit.payload.clone();
    tx.view.execute(&sql::body::SET_MESSAGE, params![task.seq, message.encode()])?;
    // The checkpoint of a run says nothing of another payload.
    tx.view.execute(&sql::body::FORGET_CHECKPOINT, [task.seq])?;
    Ok(Ok(Changed::Done))
}

fn unreadable(error: &UndecodableMessage, id: &TaskId) -> BrokerError {
    BrokerError::with_source(
        BrokerErrorKind::Corrupt,
        format!("task {id}: there is no payload to replace in what is stored ({error}); delete the task instead"),
        error.clone(),
    )
}
