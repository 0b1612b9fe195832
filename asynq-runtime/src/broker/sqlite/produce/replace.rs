//! Puts a task in the place of an equal one that waits or runs (contract: `broker/produce.rs`).

use rusqlite::params;

use super::{
    super::{
        row::{after, instant},
        sql,
        stored_task::StoredTask,
        tx::{Tx, View},
    },
    place,
};
use crate::{
    broker::{NewTask, Placed, Replaces, When},
    task::{Extra, TaskId, TaskMessage, TaskState},
};

/// Finds the task `id`, which holds the lock of `task`, if `task` can replace it.
pub(super) fn find(task: &NewTask, id: &str, view: &View<'_>) -> rusqlite::Result<Option<StoredTask>> {
    let holder = StoredTask::find(view, &task.queue, id)?;
    Ok(holder.filter(|holder| !holder.grouped && can_be_replaced(holder.state)))
}

fn can_be_replaced(state: TaskState) -> bool {
    matches!(state, TaskState::Pending | TaskState::Scheduled | TaskState::Retry | TaskState::Active)
}

/// Returns when `task` is due, and its extra facts if they change: a burst of tasks that replace each other may have a limit,
/// and the extra facts keep when the burst began. `since` is that time, if the burst began before `task`.
pub(super) fn bounded(task: &NewTask, now: i64, since: Option<i64>) -> (When, Option<Extra>) {
    let Some(Replaces { within: Some(within) }) = task.replaces else { return (task.when, None) };
    // A burst that begins in the future began before the clock was set back, and its limit would be as far away.
    let since = since.unwrap_or(now).min(now);
    let (_, due) = place(task.when, false, now);
    let due = due.min(after(since, within));
    (When::At(instant(due)), Some(Extra { replaced_since_ms: Some(since), ..task.extra.clone() }))
}

/// Gives the waiting task `holder` the arguments, the options and the time of `task`.
pub(super) fn waiting(tx: &mut Tx<'_>, task: &NewTask, holder: &StoredTask) -> rusqlite::Result<Placed> {
    let (now, q) = (tx.view.now, tx.queue_or_new(&task.queue)?);
    // A burst begins anew when an attempt has failed. An outcome of our servers forgets the beginning, one of Go keeps it.
    let since = holder.extra.replaced_since_ms.filter(|_| holder.state != TaskState::Retry);
    let (when, extra) = bounded(task, now, since);
    let mut extra = extra.unwrap_or_else(|| task.extra.clone());
    let mut message = TaskMessage { id: holder.id.clone(), ..task.message.clone() };
    // A caller that waits for the task was promised its result.
    if holder.extra.awaited {
        extra.awaited = true;
        message.retention = message.retention.max(i64::try_from(Extra::AWAITED_RETENTION).unwrap_or(i64::MAX));
    }
    let (state, due) = place(when, false, now);
    let keeps_turn = state == TaskState::Pending && holder.state == TaskState::Pending;
    let at = match state {
        _ if keeps_turn => holder.at,
        TaskState::Pending => tx.tail(q, true)?,
        _ => due,
    };
    tx.view.execute(&sql::failure::FORGET, [holder.seq, 0])?;
    tx.view.execute(
        &sql::produce::REPLACE,
        params![
            holder.seq,
            state.number(),
            at,
            (!keeps_turn).then_some(now),
            message.r#type,
            message.retried,
            message.retry,
            message.timeout,
            message.deadline,
            message.retention,
            extra.to_bytes(),
        ],
    )?;
    tx.view.execute(&sql::body::STORE, params![holder.seq, message.encode()])?;
    if let Some(lock) = &task.unique {
        tx.view.execute(&sql::lock::TRANSFER, params![q, lock.key, holder.id, after(due.max(now), lock.ttl)])?;
    }
    tx.moved(q, holder.state, state);
    Ok(Placed { state, process_at: instant(due.max(now)), replaced: Some(TaskId::from_wire(&holder.id)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_waiting_or_running_task_can_be_replaced() {
        let replaced: Vec<TaskState> = TaskState::ALL.into_iter().filter(|state| can_be_replaced(*state)).collect();
        assert_eq!(replaced.len(), 4);
        assert!(!replaced.contains(&TaskState::Archived) && !replaced.contains(&TaskState::Aggregating));
    }
}
