//! Moves a task to another queue.

use rusqlite::params;

use crate::{
    broker::{Changed, Refused},
    task::{QueueName, TaskId, TaskState},
};

use super::super::{produce::take_lock, sql, stored_task::StoredTask, tx::Tx};

/// Moves a task; a pending task goes to the tail of its new queue. All reasons to refuse the move are looked at before anything is
/// written.
pub(super) fn move_task(
    tx: &mut Tx<'_>,
    from: &QueueName,
    id: &TaskId,
    to: &QueueName,
) -> rusqlite::Result<Result<Changed, Refused>> {
    let Some(task) = StoredTask::find(&tx.view, from, id.as_str())? else { return Ok(Ok(Changed::NotFound)) };
    if !task.can_move() {
        return Ok(Ok(Changed::Unfit(task.state)));
    }
    if from == to {
        return Ok(Ok(Changed::Done));
    }
    let key = task.lock.as_deref().map(|key| key_in(key, from, to));
    let old_lock = task.held_lock(&tx.view)?;
    if let Some(q) = tx.view.queue(to)?
        && tx.view.find(&sql::task::FIND, params![q, task.id], |_| Ok(()))?.is_some()
    {
        return Ok(Err(Refused::IdConflict));
    }
    // A queue that becomes known here has no locks, so that the move is refused below only if nothing was written.
    let q = tx.queue_or_new(to)?;
    if let (Some(key), Some((_, until))) = (&key, old_lock)
        && let Err(holder) = take_lock(&tx.view, q, key, &task.id, until)?
    {
        return Ok(Err(Refused::Duplicate { holder }));
    }
    // The row of a lock that has ended goes, too: no later step deletes it, because the task is in another queue by then.
    tx.free_lock(task.q, task.lock.as_deref(), &task.id)?;
    let at = if task.state == TaskState::Pending { tx.tail(q, true)? } else { task.at };
    tx.view.execute(&sql::repair::MOVE, params![task.seq, q, at, key, tx.view.now])?;
    // Bytes that are not a message are left as they are found.
    if let Ok(mut message) = task.message(&tx.view)? {
        to.as_str().clone_into(&mut message.queue);
        message.unique_key = key_in(&message.unique_key, from, to);
        tx.view.execute(&sql::body::SET_MESSAGE, params![task.seq, message.encode()])?;
    }
    tx.left(task.q, task.state);
    tx.came(q, task.state);
    // A caller that waits for the task, or until its queue is idle, finds that it is gone from there.
    tx.effects.ended = true;
    Ok(Ok(Changed::Done))
}

/// Returns the key of a unique lock in another queue; a key of another form stays.
fn key_in(key: &str, from: &QueueName, to: &QueueName) -> String {
    match key.strip_prefix(&format!("asynq:{{{from}}}:")) {
        Some(rest) => format!("asynq:{{{to}}}:{rest}"),
        None => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_goes_along_under_the_key_of_the_new_queue() {
        let (from, to) = (QueueName::from_wire("a"), QueueName::from_wire("b"));
        for (key, moved) in [
            ("asynq:{a}:unique:mail:c4ca", "asynq:{b}:unique:mail:c4ca"),
            ("asynq:{ab}:unique:mail:c4ca", "asynq:{ab}:unique:mail:c4ca"),
            ("mine", "mine"),
            ("", ""),
        ] {
            assert_eq!(key_in(key, &from, &to), moved);
        }
    }
}
