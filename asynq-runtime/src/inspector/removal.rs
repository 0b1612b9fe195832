//! Deletes a whole queue.

use std::{
    future::IntoFuture,
    time::{Duration, Instant},
};

use super::{BulkProgress, BulkReport, InspectError, Inspector, progress::OnProgress, queue_name};
use crate::{
    broker::QueueDeleted,
    job::BoxFuture,
    task::{QueueName, TaskState},
};

/// The states whose tasks are deleted, in this order: those from which a worker could take come first.
const STATES: [TaskState; 6] = [
    TaskState::Pending,
    TaskState::Scheduled,
    TaskState::Retry,
    TaskState::Aggregating,
    TaskState::Archived,
    TaskState::Completed,
];

/// How often a queue is emptied that other programs fill again.
const ROUNDS: usize = 3;

/// Whether a queue that has tasks is deleted with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Force {
    /// Deletes only an empty queue. Tasks that are kept after their success and tasks in groups count, unlike in asynq.
    No,
    /// Deletes the tasks of the queue as well. Running tasks are not deleted; a queue that has any stays.
    Yes,
}

impl Inspector {
    /// Deletes a queue with its counters, its pause, its groups and the keys that other programs left in it; `.await` it.
    ///
    /// With [`Force::Yes`] the call pauses the queue, deletes its tasks in slices, and then deletes the queue. If that fails half
    /// way, the queue runs again unless it was paused before, and the same call continues. A future that is dropped half way
    /// leaves the queue paused. A program that goes on enqueueing makes the queue anew; on Redis it may take a minute until it is
    /// listed again.
    pub fn delete_queue(&self, queue: impl AsRef<str>, force: Force) -> QueueRemoval {
        QueueRemoval {
            inspector: self.clone(),
            queue: queue_name(queue),
            force,
            dry_run: false,
            within: None,
            progress: OnProgress::default(),
        }
    }
}

/// The deletion of a queue, made by `.await`; [`Inspector::delete_queue`] returns it.
///
/// # Errors
///
/// `.await` fails if the queue does not exist, has tasks ([`InspectError::QueueNotEmpty`]) or running ones
/// ([`InspectError::QueueActive`]), other programs fill it all the time, or the broker failed.
#[must_use = "nothing is deleted until `.await`"]
#[derive(Debug)]
pub struct QueueRemoval {
    inspector: Inspector,
    queue: Result<QueueName, InspectError>,
    force: Force,
    dry_run: bool,
    within: Option<Duration>,
    progress: OnProgress,
}

/// The result of deleting a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemovedQueue {
    /// Tasks that were deleted with the queue; in a dry run those that would be.
    pub tasks: u64,
    /// Ids without a task that were in its lists; in a dry run they are counted as tasks.
    pub ghosts: u64,
    /// Whether the queue is still there, paused, because the time of [`QueueRemoval::within`] was over.
    pub more: bool,
}

impl QueueRemoval {
    /// Makes a dry run: changes no task, and returns the number of tasks that would be deleted or the error that would prevent
    /// it.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Deletes tasks for about this long; default until none is left. If some are left then, [`RemovedQueue::more`] says so, the
    /// queue stays paused, and the same call continues.
    pub fn within(mut self, limit: Duration) -> Self {
        self.within = Some(limit);
        self
    }

    /// Calls `callback` after each slice of tasks. Tasks that are enqueued in the meantime are added to the total.
    pub fn on_progress(mut self, callback: impl FnMut(BulkProgress) + Send + 'static) -> Self {
        self.progress = OnProgress::new(callback);
        self
    }

    async fn remove(self) -> Result<RemovedQueue, InspectError> {
        let Self { inspector, queue, force, dry_run, within, progress } = self;
        let until = within.and_then(|limit| Instant::now().checked_add(limit));
        let queue = queue?;
        // On Redis the tasks of a set are in no number and in no group, so that nothing below would find them.
        inspector.reclaim_sets(&queue).await?;
        let stats = inspector.queue(&queue).await?;
        match force {
            _ if stats.active > 0 => return Err(InspectError::QueueActive { queue, active: stats.active }),
            Force::No if stats.size > 0 => return Err(InspectError::QueueNotEmpty { queue, tasks: stats.size }),
            _ if dry_run => return Ok(RemovedQueue { tasks: stats.size, ghosts: 0, more: false }),
            Force::No => {}
            Force::Yes => {
                let paused_now = inspector.broker.pause(&queue).await?;
                let removed = empty(&inspector, &queue, until, progress).await;
                if removed.is_err() && paused_now {
                    // The first error is returned, not that of the resume: a queue that stays paused can be seen.
                    let _ = inspector.broker.resume(&queue).await;
                }
                return removed;
            }
        }
        match inspector.broker.delete_queue(&queue).await? {
            QueueDeleted::Done => Ok(RemovedQueue { tasks: 0, ghosts: 0, more: false }),
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
    until: Option<Instant>,
    mut callback: OnProgress,
) -> Result<RemovedQueue, InspectError> {
    let mut progress = BulkProgress::default();
    for _ in 0..ROUNDS {
        let stats = inspector.broker.queue_stats(queue).await?;
        // A run that began after tasks were deleted does not hide their number.
        if stats.active > 0 && progress.changed > 0 {
            break;
        }
        if stats.active > 0 {
            return Err(InspectError::QueueActive { queue: queue.clone(), active: stats.active });
        }
        progress.total = progress.done + stats.size;
        for state in STATES.into_iter().filter(|&state| stats.count(state) > 0) {
            let before = progress;
            let bulk = inspector.delete_all(queue, state).start().await;
            let mut bulk = bulk.map_err(|error| interrupted(error, progress))?;
            while let Some(part) = bulk.slice().await.map_err(|error| interrupted(error, progress))? {
                progress.changed = before.changed + part.changed;
                progress.ghosts = before.ghosts + part.ghosts;
                progress.done = before.done + part.done;
                progress.total = progress.total.max(progress.done);
                callback.report(progress);
                if progress.done < progress.total && until.is_some_and(|until| Instant::now() >= until) {
                    return Ok(RemovedQueue { tasks: progress.changed, ghosts: progress.ghosts, more: true });
                }
            }
        }
        match inspector.broker.delete_queue(queue).await? {
            // `NotFound` means that another program did the last step, or that the first answer was lost.
            QueueDeleted::Done | QueueDeleted::NotFound => {
                return Ok(RemovedQueue { tasks: progress.changed, ghosts: progress.ghosts, more: false });
            }
            QueueDeleted::NotEmpty => {}
        }
    }
    Err(InspectError::QueueRefilled { queue: queue.clone(), deleted: progress.changed })
}

/// The error with the tasks of all states that were deleted before it.
fn interrupted(error: InspectError, progress: BulkProgress) -> InspectError {
    let all = |part: BulkReport| BulkReport { changed: progress.changed, ghosts: progress.ghosts, ..part };
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
