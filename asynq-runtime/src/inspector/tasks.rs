//! One task: read, run, archive, delete, move or cancel it.

use tracing::Instrument as _;

use super::{InspectError, Inspector, TaskChange, queue_name, task_id};
use crate::{
    broker::{BrokerError, BrokerErrorKind, BulkAction, Changed, Failure},
    task::{QueueName, TaskId, TaskInfo, TaskState},
};

/// The error of a task that was cancelled while no server ran it.
const ORPHAN: &str = "cancelled while no worker ran it: its worker had died or was cut off";

impl Inspector {
    /// Returns one task, in any state.
    ///
    /// # Errors
    ///
    /// The queue or the task does not exist, or the broker failed.
    pub async fn task(&self, queue: impl AsRef<str>, id: impl AsRef<str>) -> Result<TaskInfo, InspectError> {
        let (queue, id) = (queue_name(queue)?, task_id(id)?);
        match self.broker.task(&queue, &id).await? {
            Some(task) => Ok(task),
            None => Err(self.missing(&queue, &id).await),
        }
    }

    /// Returns the queues that may have a task with this id, to be asked one by one: those that have one, or all while a part of a
    /// cluster is away. Ids are unique within a queue only.
    ///
    /// # Errors
    ///
    /// The id is blank, or the broker failed.
    pub async fn queues_of(&self, id: impl AsRef<str>) -> Result<Vec<QueueName>, InspectError> {
        let id = task_id(id)?;
        Ok(match self.broker.queues_of(&id).await {
            Ok(queues) => queues,
            Err(_) => self.broker.queues().await?,
        })
    }

    /// Returns the last 10 attempts at a task that ended with an error, the newest first; those that count as no failure, and those that
    /// did not begin, are among them. Crashes of a worker are not, and of the attempts of Go workers only the task's last error is.
    ///
    /// # Errors
    ///
    /// The queue or the task does not exist, or the broker failed.
    pub async fn failures(&self, queue: impl AsRef<str>, id: impl AsRef<str>) -> Result<Vec<Failure>, InspectError> {
        let (queue, id) = (queue_name(queue)?, task_id(id)?);
        let failures = self.broker.failures(&queue, &id).await?;
        if failures.is_empty() {
            self.task(&queue, &id).await?;
        }
        Ok(failures)
    }

    /// Makes a scheduled, retry, archived, completed or aggregating task pending, at the end of its queue. Its attempts stay
    /// counted. A unique lock that was freed when the task ended is not taken again, so an equal task may run beside it, unless
    /// its own run takes the lock (`unique_extend`). A deadline that has passed stays, and a worker archives the task again without a
    /// run: enqueue its arguments anew. [`BulkAction::Run`] says which facts are forgotten.
    ///
    /// # Errors
    ///
    /// The queue or the task does not exist, the task is pending or active, or the broker failed.
    pub async fn run(&self, queue: impl AsRef<str>, id: impl AsRef<str>) -> Result<(), InspectError> {
        self.change_task(queue, id, None, BulkAction::Run).await
    }

    /// Archives a pending, scheduled, retry, completed or aggregating task.
    ///
    /// # Errors
    ///
    /// The queue or the task does not exist, the task is archived or active, or the broker failed.
    pub async fn archive(&self, queue: impl AsRef<str>, id: impl AsRef<str>) -> Result<(), InspectError> {
        self.change_task(queue, id, None, BulkAction::Archive).await
    }

    /// Deletes a task that is not active.
    ///
    /// # Errors
    ///
    /// The queue or the task does not exist, the task is active, or the broker failed.
    pub async fn delete(&self, queue: impl AsRef<str>, id: impl AsRef<str>) -> Result<(), InspectError> {
        self.change_task(queue, id, None, BulkAction::Delete).await
    }

    /// Runs, archives or deletes a task only if it is still in the state `only` of an earlier look, or in any state where `only` is
    /// `None`. The check and the change are one atomic step.
    ///
    /// ```no_run
    /// # use asynq_runtime::{broker::BulkAction, prelude::*};
    /// # async fn clean_up(client: &Client) -> Result<(), BoxError> {
    /// let inspector = client.inspector();
    /// for task in inspector.tasks("default", TaskState::Retry).await? {
    ///     // Not if it was made pending meanwhile.
    ///     inspector.change_task("default", &task.id, Some(task.state), BulkAction::Delete).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`InspectError::Moved`] if the task is in another state by now; otherwise the errors of [`run`](Self::run),
    /// [`archive`](Self::archive) and [`delete`](Self::delete).
    pub async fn change_task(
        &self,
        queue: impl AsRef<str>,
        id: impl AsRef<str>,
        only: Option<TaskState>,
        action: BulkAction,
    ) -> Result<(), InspectError> {
        let (queue, id) = (queue_name(queue)?, task_id(id)?);
        let change = TaskChange::of(action);
        match (self.change(&queue, || self.broker.change_task(&queue, &id, only, action)).await?, only) {
            (Changed::Unfit(found), Some(expected)) if found != expected => {
                Err(InspectError::Moved { change, id, expected, found })
            }
            (changed, _) => self.done(changed, change, &queue, id).await,
        }
    }

    /// Moves a pending, scheduled, retry, archived or aggregating task to another queue, in its state, with its due time and
    /// counters. An archived task keeps the time at which it was archived, so that a full archive deletes it early. The other
    /// queue need not exist yet, but its name must be valid. A move to the task's own queue gives up a move
    /// that broke off, ends one whose old queue has the task no more, and else changes nothing. A move that has begun goes on in
    /// the background when this future is dropped.
    ///
    /// # Errors
    ///
    /// The queue or the task does not exist; the task is active or completed; its id or its unique lock is taken in the other
    /// queue; the name of the other queue is not valid; or the broker failed. In the last case the task may
    /// be moved already, or be held for the move on Redis: scheduled for the year 9999, until the same call is made again.
    pub async fn move_to(
        &self,
        queue: impl AsRef<str>,
        id: impl AsRef<str>,
        to: impl AsRef<str>,
    ) -> Result<(), InspectError> {
        let (queue, id, to) = (queue_name(queue)?, task_id(id)?, QueueName::new(to.as_ref())?);
        let inspector = self.clone();
        // On Redis a move may have several steps, and no housekeeping ends one that breaks off. So a task of its own makes them all, also
        // when the caller stops waiting.
        let moving = async move {
            match inspector.change(&queue, || inspector.broker.move_task(&queue, &id, &to)).await {
                Ok(changed) => inspector.done(changed, TaskChange::Move, &queue, id).await,
                Err(error) => Err(InspectError::not_moved(error, &to, &id)),
            }
        };
        tokio::spawn(moving.in_current_span()).await.unwrap_or_else(|ended| {
            Err(BrokerError::new(BrokerErrorKind::Unexpected, format!("the move of the task ended: {ended}")).into())
        })
    }

    /// Asks the server that runs the task to cancel it, in all queues. The run ends as a failed attempt: the task waits for its next
    /// retry, and is archived where none is left. If a task with this id is active although its lease has
    /// passed, no worker runs it, and it is ended as a failed attempt: retried or archived, as its counters say. Returns the
    /// queues of such tasks. An empty list says nothing of the task: it is the answer for one that runs and was asked to stop, for one
    /// that waits, which is not cancelled, and for an id that no task has. A worker whose connection is cut at this moment learns of
    /// the request when it is connected again. A Go worker, or one of a version before this rule, does not: whether such a worker
    /// received the request is not known, as in asynq. A request to a run whose worker has died, but whose lease is not over, is lost
    /// with it: the task is requeued and runs again.
    ///
    /// # Errors
    ///
    /// The id is blank, or the broker failed, if only for one of the queues. The request may have been sent; it may be repeated.
    pub async fn cancel(&self, id: impl AsRef<str>) -> Result<Vec<QueueName>, InspectError> {
        let id = task_id(id)?;
        let queues = self.queues_of(&id).await;
        let (mut ended, mut failed) = (Vec::new(), None);
        for queue in queues.as_deref().unwrap_or_default() {
            match self.end_orphan(queue, &id).await {
                Ok(true) => ended.push(queue.clone()),
                Ok(false) => {}
                // The others are looked at all the same: a part of a cluster may be away.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        // Nothing else has this id: the request would reach only the next attempt at a task that was ended.
        if ended.is_empty() || queues.as_ref().is_ok_and(|queues| queues.len() > ended.len()) {
            self.broker.cancel(&id).await?;
        }
        queues?;
        Ok(failed.map_or(Ok(ended), Err)?)
    }

    /// [`cancel`](Self::cancel) for a task whose queue is known: only that queue is looked at. Returns whether no worker ran the task
    /// any more. Otherwise a request is sent, which names the id alone, so that a task of this id that runs in another queue is
    /// cancelled as well.
    ///
    /// # Errors
    ///
    /// As [`cancel`](Self::cancel).
    pub async fn cancel_in(&self, queue: impl AsRef<str>, id: impl AsRef<str>) -> Result<bool, InspectError> {
        let (queue, id) = (queue_name(queue)?, task_id(id)?);
        let ended = self.end_orphan(&queue, &id).await;
        if !matches!(ended, Ok(true)) {
            self.broker.cancel(&id).await?;
        }
        Ok(ended?)
    }

    /// Ends the task as a failed attempt if no worker runs it, and else keeps that its run was asked to stop. Returns whether it ended
    /// the task. A request is published after this call and not before: a worker that listens from a moment in between on reads what
    /// is kept.
    async fn end_orphan(&self, queue: &QueueName, id: &TaskId) -> Result<bool, BrokerError> {
        // The task is not looked up first: one whose message cannot be read is shown by no tool, and is ended all the same.
        Ok(self.broker.end_orphan(queue, id, ORPHAN).await? == Changed::Done)
    }

    /// Changes one task by `call`, and calls again if the task was in a set whose deadline had passed.
    pub(super) async fn change<C, E>(&self, queue: &QueueName, call: impl Fn() -> C) -> Result<Changed, E>
    where
        C: Future<Output = Result<Changed, E>>,
        E: From<BrokerError>,
    {
        let changed = call().await?;
        if changed == Changed::Unfit(TaskState::Aggregating) && self.reclaim_sets(queue).await? {
            return call().await;
        }
        Ok(changed)
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
