//! Deletes a whole queue.

use std::{fmt, future::IntoFuture};

use super::{BulkProgress, BulkReport, InspectError, Inspector, bulk::in_state, queue_name};
use crate::{
    broker::QueueDeleted,
    job::BoxFuture,
    task::{QueueName, TaskState},
};

/// What can be deleted, in this order: first what a worker could take.
const STATES: [TaskState; 6] = [
    TaskState::Pending,
    TaskState::Scheduled,
    TaskState::Retry,
    TaskState::Aggregating,
    TaskState::Archived,
    TaskState::Completed,
];

/// How often a queue is emptied that others fill again.
const ROUNDS: usize = 3;

/// Whether a queue that has tasks is deleted, and they with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Force {
    /// Only an empty queue is deleted. Kept successes and waiting groups count as tasks, unlike in asynq.
    No,
    /// Its tasks are deleted too, but for running ones: they keep a queue from being deleted.
    Yes,
}

impl Inspector {
    /// Deletes a queue with its counters, its pause, its groups and everything that others left in it; `.await` it.
    ///
    /// With [`Force::Yes`] it pauses the queue, deletes the tasks in slices, and then the queue. If that fails half way, the
    /// queue runs again unless it was paused before, and the same call goes on. Dropped half way, it leaves the queue paused.
    /// A program that goes on enqueueing makes the queue anew; on Redis it may be a minute until it is listed again.
    pub fn delete_queue(&self, queue: impl AsRef<str>, force: Force) -> QueueRemoval {
        QueueRemoval { inspector: self.clone(), queue: queue_name(queue), force, dry_run: false, progress: None }
    }
}

type OnProgress = Box<dyn FnMut(BulkProgress) + Send>;

/// A queue that is deleted by `.await`; [`Inspector::delete_queue`] makes it.
///
/// # Errors
///
/// Of `.await`: there is no such queue, it has tasks ([`InspectError::QueueNotEmpty`]) or running ones
/// ([`InspectError::QueueActive`]), others fill it all the time, or the broker failed.
#[must_use = "nothing is deleted until `.await`"]
pub struct QueueRemoval {
    inspector: Inspector,
    queue: Result<QueueName, InspectError>,
    force: Force,
    dry_run: bool,
    progress: Option<OnProgress>,
}

/// What became of a queue that was to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemovedQueue {
    /// Tasks that were deleted with it; in a dry run those that would be.
    pub tasks: u64,
    /// Ids without a task that were in its lists; in a dry run they are counted as tasks.
    pub ghosts: u64,
}

impl QueueRemoval {
    /// Changes nothing, but says what would be deleted, or why it cannot be.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Calls `tell` at the start and after each slice of tasks. Tasks that come meanwhile are added to the total.
    pub fn on_progress(mut self, tell: impl FnMut(BulkProgress) + Send + 'static) -> Self {
        self.progress = Some(Box::new(tell));
        self
    }

    async fn remove(self) -> Result<RemovedQueue, InspectError> {
        let Self { inspector, queue, force, dry_run, progress } = self;
        let queue = queue?;
        let stats = inspector.queue(&queue).await?;
        match force {
            _ if stats.active > 0 => return Err(InspectError::QueueActive { queue, active: stats.active }),
            Force::No if stats.size > 0 => return Err(InspectError::QueueNotEmpty { queue, tasks: stats.size }),
            _ if dry_run => return Ok(RemovedQueue { tasks: stats.size, ghosts: 0 }),
            Force::No => {}
            Force::Yes => {
                let paused_now = inspector.broker.pause(&queue).await?;
                let removed = empty(&inspector, &queue, progress).await;
                if removed.is_err() && paused_now {
                    // The first error is what is told; a queue that stays paused can be seen.
                    let _ = inspector.broker.resume(&queue).await;
                }
                return removed;
            }
        }
        match inspector.broker.delete_queue(&queue).await? {
            QueueDeleted::Done => Ok(RemovedQueue { tasks: 0, ghosts: 0 }),
            QueueDeleted::NotFound => Err(InspectError::QueueNotFound { queue }),
            QueueDeleted::NotEmpty => {
                let tasks = inspector.broker.queue_stats(&queue).await?.size;
                Err(InspectError::QueueNotEmpty { queue, tasks })
            }
        }
    }
}

/// Deletes the tasks of a paused queue, then the queue.
async fn empty(
    inspector: &Inspector,
    queue: &QueueName,
    mut tell: Option<OnProgress>,
) -> Result<RemovedQueue, InspectError> {
    let mut progress = BulkProgress::default();
    for _ in 0..ROUNDS {
        let stats = inspector.broker.queue_stats(queue).await?;
        if stats.active > 0 {
            return Err(InspectError::QueueActive { queue: queue.clone(), active: stats.active });
        }
        progress.total = progress.done + stats.size;
        for state in STATES.into_iter().filter(|&state| in_state(&stats, state) > 0) {
            let before = progress;
            let mut bulk = match inspector.delete_all(queue, state).start().await {
                Ok(bulk) => bulk,
                Err(error) => return Err(interrupted(error, before)),
            };
            while let Some(part) = bulk.slice().await.map_err(|error| interrupted(error, before))? {
                progress.changed = before.changed + part.changed;
                progress.ghosts = before.ghosts + part.ghosts;
                progress.done = before.done + part.done;
                progress.total = progress.total.max(progress.done);
                if let Some(tell) = &mut tell {
                    tell(progress);
                }
            }
        }
        match inspector.broker.delete_queue(queue).await? {
            // Gone already means that another program did the last step, or that our own answer was lost.
            QueueDeleted::Done | QueueDeleted::NotFound => {
                return Ok(RemovedQueue { tasks: progress.changed, ghosts: progress.ghosts });
            }
            QueueDeleted::NotEmpty => {}
        }
    }
    Err(InspectError::QueueRefilled { queue: queue.clone(), deleted: progress.changed })
}

/// The error with what was done before it in all states.
fn interrupted(error: InspectError, before: BulkProgress) -> InspectError {
    let all = |part: BulkReport| BulkReport {
        changed: before.changed + part.changed,
        ghosts: before.ghosts + part.ghosts,
        ..part
    };
    match error {
        InspectError::Interrupted { done, source } => InspectError::Interrupted { done: all(done), source },
        InspectError::Broker(source) => InspectError::Interrupted { done: all(BulkReport::default()), source },
        other => other,
    }
}

impl IntoFuture for QueueRemoval {
    type Output = Result<RemovedQueue, InspectError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.remove())
    }
}

impl fmt::Debug for QueueRemoval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, force, dry_run, .. } = self;
        f.debug_struct("QueueRemoval")
            .field("queue", queue)
            .field("force", force)
            .field("dry_run", dry_run)
            .finish_non_exhaustive()
    }
}
