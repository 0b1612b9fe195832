//! Changes that people make to tasks and queues (contract: `broker/repair.rs`): each call is one transaction.

mod bulk;
mod edit;
mod orphan;
mod travel;

use bytes::Bytes;
use rusqlite::params;

use crate::{
    broker::{
        BrokerError, BulkAction, BulkSlice, Changed, Chosen, EditError, PayloadEdit, QueueDeleted, Refused, Repair,
    },
    task::{QueueName, TaskId, TaskMessage, TaskState, UndecodableMessage},
};

use super::{
    SqliteBroker, sql,
    stored_task::StoredTask,
    tx::{Tx, View},
};

#[async_trait::async_trait]
impl Repair for SqliteBroker {
    async fn change_task(
        &self,
        queue: &QueueName,
        id: &TaskId,
        only: Option<TaskState>,
        action: BulkAction,
    ) -> Result<Changed, BrokerError> {
        let (queue, id) = (queue.clone(), id.clone());
        self.change(move |tx| {
            let Some(task) = StoredTask::find(&tx.view, &queue, id.as_str())? else { return Ok(Changed::NotFound) };
            if only.is_some_and(|only| only != task.state) || !task.allows(action) {
                return Ok(Changed::Unfit(task.state));
            }
            task.change(tx, action)?;
            Ok(Changed::Done)
        })
        .await
    }

    async fn move_task(&self, queue: &QueueName, id: &TaskId, to: &QueueName) -> Result<Changed, Refused> {
        let (queue, id, to) = (queue.clone(), id.clone(), to.clone());
        self.change(move |tx| travel::move_task(tx, &queue, &id, &to)).await?
    }

    async fn edit_payload(&self, queue: &QueueName, id: &TaskId, edit: &PayloadEdit) -> Result<Changed, EditError> {
        let (queue, id, edit) = (queue.clone(), id.clone(), edit.clone());
        self.change(move |tx| edit::edit(tx, &queue, &id, &edit)).await?
    }

    async fn end_orphan(&self, queue: &QueueName, id: &TaskId, error: &str) -> Result<Changed, BrokerError> {
        let (queue, id, error) = (queue.clone(), id.clone(), error.to_owned());
        // A cancel may ask all queues: those without such a task cost no write.
        let looked = (queue.clone(), id.clone());
        let look = move |view: &View<'_>| {
            StoredTask::find(view, &looked.0, looked.1.as_str()).map(|task| task.map(|task| task.state))
        };
        match self.store.read(look).await? {
            Some(TaskState::Active) => {}
            found => return Ok(found.map_or(Changed::NotFound, Changed::Unfit)),
        }
        self.change(move |tx| orphan::end(tx, &queue, &id, &error)).await
    }

    async fn change_some(
        &self,
        queue: &QueueName,
        chosen: &Chosen,
        action: BulkAction,
        limit: usize,
    ) -> Result<BulkSlice, BrokerError> {
        bulk::change(&self.store, queue, chosen, action, limit).await
    }

    async fn release_lock(
        &self,
        queue: &QueueName,
        key: &str,
        holder: &TaskId,
        stuck: bool,
    ) -> Result<bool, BrokerError> {
        let (queue, key, holder) = (queue.clone(), key.to_owned(), holder.clone());
        self.change(move |tx| {
            let Some(q) = tx.queue(&queue)? else { return Ok(false) };
            Ok(tx.view.execute(&sql::repair::UNLOCK, params![q, key, holder.as_str(), stuck])? == 1)
        })
        .await
    }

    async fn delete_queue(&self, queue: &QueueName) -> Result<QueueDeleted, BrokerError> {
        let queue = queue.clone();
        self.change(move |tx| delete_queue(tx, &queue)).await
    }
}

impl StoredTask {
    /// Whether `action` can be done to this task. A task that is staged is part of a set of which a server makes a task; it can be
    /// changed again when the set ends.
    fn allows(&self, action: BulkAction) -> bool {
        !self.staged && (action.fits(self.state) || self.state == TaskState::Completed)
    }

    /// Whether this task can be moved, and its payload replaced.
    fn can_move(&self) -> bool {
        !self.staged && !matches!(self.state, TaskState::Active | TaskState::Completed)
    }

    fn change(&self, tx: &mut Tx<'_>, action: BulkAction) -> rusqlite::Result<()> {
        let Self { seq, q, ref id, state, .. } = *self;
        let came = match action {
            BulkAction::Run => {
                let place = tx.tail(q, true)?;
                tx.view.execute(&sql::task::RUN, [seq, place, tx.view.now])?;
                let extra = self.extra.to_run_again(tx.view.now);
                if extra != self.extra {
                    tx.view.execute(&sql::task::SET_EXTRA, params![seq, extra.to_bytes()])?;
                }
                TaskState::Pending
            }
            BulkAction::Archive => {
                tx.view.execute(&sql::repair::ARCHIVE, [seq, tx.view.now])?;
                tx.free_lock_of_archived(q, self.lock.as_deref(), id, &self.extra)?;
                TaskState::Archived
            }
            BulkAction::Delete => return tx.delete(&self.to_delete()),
        };
        if state == TaskState::Completed {
            self.note_success(tx)?;
        }
        tx.moved(q, state, came);
        Ok(())
    }

    /// Writes into the message when the task succeeded, which only its expiry has said so far.
    fn note_success(&self, tx: &Tx<'_>) -> rusqlite::Result<()> {
        if let Ok(mut message) = self.message(&tx.view)? {
            message.completed_at = self.at.div_euclid(1_000).saturating_sub(self.retention);
            tx.view.execute(&sql::body::SET_MESSAGE, params![self.seq, message.encode()])?;
        }
        Ok(())
    }

    /// Returns the unique lock that the task holds: its key and until when.
    fn held_lock(&self, view: &View<'_>) -> rusqlite::Result<Option<(&str, i64)>> {
        let Some(key) = self.lock.as_deref() else { return Ok(None) };
        let until = view.find(&sql::repair::LOCK_UNTIL, params![self.q, key, self.id, view.now], |row| row.get(0))?;
        Ok(until.map(|until| (key, until)))
    }

    /// Returns the message, or the bytes that are found in its place.
    fn message(&self, view: &View<'_>) -> rusqlite::Result<Result<TaskMessage, UndecodableMessage>> {
        let bytes: Option<Vec<u8>> = view.find(&sql::body::MESSAGE, [self.seq], |row| row.get(0))?;
        let missing = || UndecodableMessage { raw: Bytes::new(), reason: "the message is missing".into() };
        Ok(bytes.ok_or_else(missing).and_then(|bytes| TaskMessage::decode(bytes.into())))
    }
}

/// Deletes all that is known of a queue without tasks.
fn delete_queue(tx: &mut Tx<'_>, queue: &QueueName) -> rusqlite::Result<QueueDeleted> {
    let Some(q) = tx.view.queue(queue)? else { return Ok(QueueDeleted::NotFound) };
    if tx.view.find(&sql::repair::HAS_TASKS, [q], |_| Ok(()))?.is_some() {
        return Ok(QueueDeleted::NotEmpty);
    }
    for forget in [
        &sql::repair::FORGET_ULOCK,
        &sql::repair::FORGET_STAT,
        &sql::repair::FORGET_TALLY,
        &sql::repair::FORGET_BATCH,
        &sql::repair::FORGET_QUEUE,
    ] {
        tx.view.execute(forget, [q])?;
    }
    tx.forget_queue(q);
    Ok(QueueDeleted::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_possible_changes_depend_on_the_state() {
        use TaskState::{Aggregating, Archived, Completed, Pending, Retry, Scheduled};
        let staged = StoredTask { staged: true, ..StoredTask::in_state(Aggregating) };
        for (action, allowed) in [
            (BulkAction::Run, vec![Scheduled, Retry, Archived, Completed, Aggregating]),
            (BulkAction::Archive, vec![Pending, Scheduled, Retry, Completed, Aggregating]),
            (BulkAction::Delete, vec![Pending, Scheduled, Retry, Archived, Completed, Aggregating]),
        ] {
            for state in TaskState::ALL {
                let task = StoredTask::in_state(state);
                assert_eq!(task.allows(action), allowed.contains(&state), "{action:?} {state}");
            }
            assert!(!staged.allows(action), "{action:?} of a member of a set");
        }
        for state in TaskState::ALL {
            let waits = [Pending, Scheduled, Retry, Archived, Aggregating].contains(&state);
            assert_eq!(StoredTask::in_state(state).can_move(), waits, "{state}");
        }
        assert!(!staged.can_move());
    }
}
