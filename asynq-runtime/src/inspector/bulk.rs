//! Many tasks at once, in slices that no broker feels, with a report that leaves nothing out.

use std::{fmt, future::IntoFuture};

use super::{InspectError, Inspector, ListGroups, Wish, queue_name};
use crate::{
    broker::{BrokerError, BulkAction, BulkSlice, Chosen, QueueStats},
    job::BoxFuture,
    task::{GroupName, QueueName, TaskState},
};

/// Most tasks that one call to the broker changes.
const SLICE: usize = 100;

impl From<TaskState> for Chosen {
    /// All in this state.
    fn from(state: TaskState) -> Self {
        Self::InState(state)
    }
}

impl From<GroupName> for Chosen {
    /// All that wait in this group.
    fn from(group: GroupName) -> Self {
        Self::InGroup(group)
    }
}

impl Inspector {
    /// Makes all scheduled, retry, archived or aggregating tasks of a queue pending, or all of a group.
    ///
    /// ```no_run
    /// # use asynq_runtime::{prelude::*, task::GroupName};
    /// # async fn repair(client: &Client) -> Result<(), BoxError> {
    /// let inspector = client.inspector();
    /// let report = inspector
    ///     .run_all("default", TaskState::Archived)
    ///     .on_progress(|p| println!("{} of {}", p.done, p.total))
    ///     .await?;
    /// println!("{} tasks run again, {} are left", report.changed, report.left);
    /// inspector.delete_all("default", GroupName::new("mails")?).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_all(&self, queue: impl AsRef<str>, chosen: impl Into<Chosen>) -> Bulk {
        self.bulk(queue, chosen, BulkAction::Run)
    }

    /// Archives all pending, scheduled, retry or aggregating tasks of a queue, or all of a group. An archive keeps 10,000
    /// tasks unless a server says otherwise: what will not fit is told by [`BulkReport::beyond_archive_limit`].
    pub fn archive_all(&self, queue: impl AsRef<str>, chosen: impl Into<Chosen>) -> Bulk {
        self.bulk(queue, chosen, BulkAction::Archive)
    }

    /// Deletes all tasks of a queue in one state but active, or all of a group.
    pub fn delete_all(&self, queue: impl AsRef<str>, chosen: impl Into<Chosen>) -> Bulk {
        self.bulk(queue, chosen, BulkAction::Delete)
    }

    fn bulk(&self, queue: impl AsRef<str>, chosen: impl Into<Chosen>, action: BulkAction) -> Bulk {
        Bulk {
            inspector: self.clone(),
            queue: queue_name(queue),
            chosen: chosen.into(),
            action,
            archive_limit: Bulk::ARCHIVE_LIMIT,
            progress: None,
        }
    }

    /// How many tasks are chosen now.
    async fn count(&self, queue: &QueueName, chosen: &Chosen) -> Result<u64, BrokerError> {
        let group = match chosen {
            Chosen::InState(state) => return Ok(in_state(&self.broker.queue_stats(queue).await?, *state)),
            Chosen::InGroup(group) => group,
        };
        let mut after: Option<GroupName> = None;
        loop {
            let some = self.broker.groups(queue, after.as_ref(), ListGroups::LIMIT).await?;
            if let Some(found) = some.iter().find(|stats| stats.group == *group) {
                return Ok(found.size);
            }
            // They come by name: where ours would have come, it is not.
            match some.last() {
                Some(last) if last.group < *group && some.len() == ListGroups::LIMIT => {
                    after = Some(last.group.clone());
                }
                _ => return Ok(0),
            }
        }
    }
}

/// How many tasks of the queue are in `state`.
pub(super) fn in_state(stats: &QueueStats, state: TaskState) -> u64 {
    match state {
        TaskState::Active => stats.active,
        TaskState::Pending => stats.pending,
        TaskState::Scheduled => stats.scheduled,
        TaskState::Retry => stats.retry,
        TaskState::Archived => stats.archived,
        TaskState::Completed => stats.completed,
        TaskState::Aggregating => stats.aggregating,
    }
}

type OnProgress = Box<dyn FnMut(BulkProgress) + Send>;

/// A change of many tasks, made by `.await` to the end or, after [`start`](Self::start), slice by slice.
///
/// It treats at most as many tasks as there were at its start, so that it ends although others enqueue meanwhile. Each
/// slice of up to 100 is one atomic step, and dropping the future between them leaves a clean state: the same call goes on.
///
/// # Errors
///
/// Of `.await`: the state cannot be treated so, there is no such queue or group, or the broker failed: then
/// [`InspectError::Interrupted`] says what was done.
#[must_use = "nothing is changed until `.await`"]
pub struct Bulk {
    inspector: Inspector,
    queue: Result<QueueName, InspectError>,
    chosen: Chosen,
    action: BulkAction,
    archive_limit: u64,
    progress: Option<OnProgress>,
}

impl Bulk {
    /// How many archived tasks a queue keeps unless a server says otherwise.
    pub const ARCHIVE_LIMIT: u64 = 10_000;

    /// Calls `tell` before the first slice and after each one.
    pub fn on_progress(mut self, tell: impl FnMut(BulkProgress) + Send + 'static) -> Self {
        self.progress = Some(Box::new(tell));
        self
    }

    /// How many archived tasks the servers of this queue keep, for [`BulkReport::beyond_archive_limit`]; default 10,000.
    pub fn archive_limit(mut self, tasks: u64) -> Self {
        self.archive_limit = tasks;
        self
    }

    /// Counts what there is to do, and does nothing yet.
    ///
    /// # Errors
    ///
    /// As those of the whole.
    pub async fn start(self) -> Result<RunningBulk, InspectError> {
        let Self { inspector, queue, chosen, action, archive_limit, progress } = self;
        let queue = queue?;
        let state = match chosen {
            Chosen::InState(state) => state,
            Chosen::InGroup(_) => TaskState::Aggregating,
        };
        if !action.fits(state) {
            return Err(InspectError::UnfitState { wish: wish(action), state });
        }
        let total = inspector.count(&queue, &chosen).await?;
        if total == 0 {
            inspector.known(&queue).await?;
            if let Chosen::InGroup(group) = &chosen {
                return Err(InspectError::no_such_group(&queue, group));
            }
        }
        let more = total > 0;
        let mut bulk = RunningBulk {
            inspector,
            queue,
            chosen,
            action,
            archive_limit,
            tell: progress,
            progress: BulkProgress { total, ..BulkProgress::default() },
            more,
        };
        bulk.tell();
        Ok(bulk)
    }
}

impl IntoFuture for Bulk {
    type Output = Result<BulkReport, InspectError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut bulk = self.start().await?;
            while bulk.slice().await?.is_some() {}
            bulk.report().await
        })
    }
}

/// A [`Bulk`] that goes on slice by slice.
#[must_use = "nothing is changed until `.slice().await`"]
pub struct RunningBulk {
    inspector: Inspector,
    queue: QueueName,
    chosen: Chosen,
    action: BulkAction,
    archive_limit: u64,
    tell: Option<OnProgress>,
    progress: BulkProgress,
    more: bool,
}

impl RunningBulk {
    /// How far it is.
    pub fn progress(&self) -> BulkProgress {
        self.progress
    }

    /// Treats the next up to 100 tasks; `None` when it is done.
    ///
    /// # Errors
    ///
    /// [`InspectError::Interrupted`]; calling again goes on.
    pub async fn slice(&mut self) -> Result<Option<BulkProgress>, InspectError> {
        let open = self.progress.total.saturating_sub(self.progress.done);
        let limit = usize::try_from(open).unwrap_or(usize::MAX).min(SLICE);
        if !self.more || limit == 0 {
            return Ok(None);
        }
        let answer = self.inspector.broker.change_some(&self.queue, &self.chosen, self.action, limit).await;
        let slice = answer.map_err(|source| InspectError::Interrupted { done: self.progress.into(), source })?;
        self.more = slice.more && slice != BulkSlice { more: true, ..BulkSlice::default() };
        self.progress.add(slice);
        self.tell();
        Ok(Some(self.progress))
    }

    /// What was done, and what is there now.
    ///
    /// # Errors
    ///
    /// [`InspectError::Interrupted`].
    pub async fn report(self) -> Result<BulkReport, InspectError> {
        let Self { inspector, queue, chosen, action, archive_limit, progress, .. } = self;
        let counted = async {
            let left = inspector.count(&queue, &chosen).await?;
            let archived = match action {
                BulkAction::Archive => inspector.broker.queue_stats(&queue).await?.archived,
                BulkAction::Run | BulkAction::Delete => 0,
            };
            Ok::<_, BrokerError>((left, archived))
        };
        let done = BulkReport::from(progress);
        let (left, archived) = counted.await.map_err(|source| InspectError::Interrupted { done, source })?;
        Ok(BulkReport { left, beyond_archive_limit: archived.saturating_sub(archive_limit), ..done })
    }

    fn tell(&mut self) {
        if let Some(tell) = &mut self.tell {
            tell(self.progress);
        }
    }
}

/// How far a bulk call is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BulkProgress {
    /// Tasks that were there at the start: as many are treated at most.
    pub total: u64,
    /// Of them treated so far: [`changed`](Self::changed) and [`ghosts`](Self::ghosts).
    pub done: u64,
    /// Tasks that were changed.
    pub changed: u64,
    /// Ids without a task that were taken off the list.
    pub ghosts: u64,
}

impl BulkProgress {
    fn add(&mut self, slice: BulkSlice) {
        self.changed += slice.changed as u64;
        self.ghosts += slice.ghosts as u64;
        self.done += (slice.changed + slice.ghosts) as u64;
    }
}

/// What a bulk call did. Nothing is dropped in silence: whatever was chosen is counted in one of these.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BulkReport {
    /// Tasks that were changed.
    pub changed: u64,
    /// Ids without a task that were taken off the list (somebody deleted their tasks in another way).
    pub ghosts: u64,
    /// Tasks that are chosen now: they came meanwhile. Ask again to treat them too.
    pub left: u64,
    /// Archived tasks that are more than an archive keeps: a server will delete so many, the oldest first. Zero unless
    /// tasks were archived.
    pub beyond_archive_limit: u64,
}

impl From<BulkProgress> for BulkReport {
    /// A report that was cut short: what is left is what was not treated.
    fn from(progress: BulkProgress) -> Self {
        Self {
            changed: progress.changed,
            ghosts: progress.ghosts,
            left: progress.total.saturating_sub(progress.done),
            beyond_archive_limit: 0,
        }
    }
}

fn wish(action: BulkAction) -> Wish {
    match action {
        BulkAction::Run => Wish::Run,
        BulkAction::Archive => Wish::Archive,
        BulkAction::Delete => Wish::Delete,
    }
}

impl fmt::Debug for Bulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, chosen, action, .. } = self;
        f.debug_struct("Bulk")
            .field("queue", queue)
            .field("chosen", chosen)
            .field("action", action)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for RunningBulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, chosen, action, progress, .. } = self;
        f.debug_struct("RunningBulk")
            .field("queue", queue)
            .field("chosen", chosen)
            .field("action", action)
            .field("progress", progress)
            .finish_non_exhaustive()
    }
}
