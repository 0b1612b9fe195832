//! One task: look at it, run, archive, delete, move or cancel it.

use super::{InspectError, Inspector, TaskChange, queue_name, task_id};
use crate::{
    broker::{BulkAction, Changed, Failure},
    task::{QueueName, TaskId, TaskInfo, TaskState},
};

/// The error of a task that was cancelled when nobody ran it.
const ORPHAN: &str = "cancelled while no worker ran it: its worker had died or was cut off";

impl Inspector {
    /// One task, in whatever state.
    ///
    /// # Errors
    ///
    /// There is no such queue or task, or the broker failed.
    pub async fn task(&self, queue: impl AsRef<str>, id: impl AsRef<str>) -> Result<TaskInfo, InspectError> {
        let (queue, id) = (queue_name(queue)?, task_id(id)?);
        match self.broker.task(&queue, &id).await? {
            Some(task) => Ok(task),
            None => Err(self.missing(&queue, &id).await),
        }
    }

    /// How the last 10 failed attempts of a task ended, the newest first. Crashes of a worker are not among them, nor
    /// what a Go worker saw.
    ///
    /// # Errors
    ///
    /// There is no such queue or task, or the broker failed.
    pub async fn failures(&self, queue: impl AsRef<str>, id: impl AsRef<str>) -> Result<Vec<Failure>, InspectError> {
        let (queue, id) = (queue_name(queue)?, task_id(id)?);
        let failures = self.broker.failures(&queue, &id).await?;
        if failures.is_empty() {
            self.task(&queue, &id).await?;
        }
        Ok(failures)
    }

    /// Makes a scheduled, retry, archived, completed or aggregating task pending, last in line. What it has tried stays
    /// counted.
    ///
    /// # Errors
    ///
    /// There is no such queue or task, it is pending or active, or the broker failed.
    pub async fn run(&self, queue: impl AsRef<str>, id: impl AsRef<str>) -> Result<(), InspectError> {
        let (queue, id) = (queue_name(queue)?, task_id(id)?);
        let changed = self.broker.run_task(&queue, &id).await?;
        self.done(changed, TaskChange::Run, &queue, id).await
    }

    /// Archives a pending, scheduled, retry, completed or aggregating task.
    ///
    /// # Errors
    ///
    /// There is no such queue or task, it is archived or active, or the broker failed.
    pub async fn archive(&self, queue: impl AsRef<str>, id: impl AsRef<str>) -> Result<(), InspectError> {
        let (queue, id) = (queue_name(queue)?, task_id(id)?);
        let changed = self.broker.archive_task(&queue, &id).await?;
        self.done(changed, TaskChange::Archive, &queue, id).await
    }

    /// Deletes a task that is not active.
    ///
    /// # Errors
    ///
    /// There is no such queue or task, it is active, or the broker failed.
    pub async fn delete(&self, queue: impl AsRef<str>, id: impl AsRef<str>) -> Result<(), InspectError> {
        let (queue, id) = (queue_name(queue)?, task_id(id)?);
        let changed = self.broker.delete_task(&queue, &id).await?;
        self.done(changed, TaskChange::Delete, &queue, id).await
    }

    /// Runs, archives or deletes a task only if it is still in `state`, the one in which somebody saw it: the check and the
    /// change are one step.
    ///
    /// ```no_run
    /// # use asynq_runtime::{broker::BulkAction, prelude::*};
    /// # async fn clean_up(client: &Client) -> Result<(), BoxError> {
    /// let inspector = client.inspector();
    /// for task in inspector.tasks("default", TaskState::Retry).await? {
    ///     // Not if it was made pending meanwhile.
    ///     inspector.change_in_state("default", &task.id, task.state, BulkAction::Delete).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`InspectError::Moved`] where it is in another state by now; else as [`run`](Self::run), [`archive`](Self::archive)
    /// and [`delete`](Self::delete).
    pub async fn change_in_state(
        &self,
        queue: impl AsRef<str>,
        id: impl AsRef<str>,
        state: TaskState,
        action: BulkAction,
    ) -> Result<(), InspectError> {
        let (queue, id) = (queue_name(queue)?, task_id(id)?);
        let change = TaskChange::of(action);
        match self.broker.change_in_state(&queue, &id, state, action).await? {
            Changed::Unfit(found) if found != state => Err(InspectError::Moved { change, id, expected: state, found }),
            changed => self.done(changed, change, &queue, id).await,
        }
    }

    /// Moves a pending, scheduled, retry, archived or aggregating task to another queue, in its state, with its due time
    /// and counters. That queue need not exist yet, but its name must be one that we may give.
    ///
    /// # Errors
    ///
    /// There is no such queue or task, it is active or completed, its id or its unique lock is taken in the other
    /// queue, the name of that queue is refused or is that of its own, or the broker failed: then the task may be archived
    /// or moved already.
    pub async fn move_to(
        &self,
        queue: impl AsRef<str>,
        id: impl AsRef<str>,
        to: impl AsRef<str>,
    ) -> Result<(), InspectError> {
        let (queue, id, to) = (queue_name(queue)?, task_id(id)?, QueueName::new(to.as_ref())?);
        if to == queue {
            return Err(InspectError::Request { what: "to", reason: format!("the task is to leave queue `{queue}`") });
        }
        match self.broker.move_task(&queue, &id, &to).await {
            Ok(changed) => self.done(changed, TaskChange::Move, &queue, id).await,
            Err(error) => Err(InspectError::not_moved(error, &to, &id)),
        }
    }

    /// Asks the server that runs the task to cancel it, in all queues. Where a task of this id counts as running, but
    /// its lease has passed and no worker runs it, it is ended as a failed attempt: retried or archived, as its counters
    /// say. Returns the queues where that was so; whether a worker heard the request is not known, as in asynq.
    ///
    /// # Errors
    ///
    /// The id is blank, or the broker failed; the request may be out, and asking again does no harm.
    pub async fn cancel(&self, id: impl AsRef<str>) -> Result<Vec<QueueName>, InspectError> {
        let id = task_id(id)?;
        self.broker.cancel(&id).await?;
        let mut ended = Vec::new();
        for queue in self.broker.queues().await? {
            let found = self.broker.task(&queue, &id).await?;
            if found.is_some_and(|task| task.state == TaskState::Active)
                && self.broker.end_orphan(&queue, &id, ORPHAN).await? == Changed::Done
            {
                ended.push(queue);
            }
        }
        Ok(ended)
    }

    pub(super) async fn done(
        &self,
        changed: Changed,
        change: TaskChange,
        queue: &QueueName,
        id: TaskId,
    ) -> Result<(), InspectError> {
        match changed {
            Changed::Done => Ok(()),
            Changed::NotFound => Err(self.missing(queue, &id).await),
            Changed::Unfit(state) => Err(InspectError::Unfit { change, id, state }),
        }
    }
}
