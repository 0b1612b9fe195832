//! Changes of many tasks, in slices that do not hold the broker up, with a report that counts every task.

use std::future::IntoFuture;

use super::{
    InspectError, Inspector, TaskChange,
    progress::{BulkProgress, BulkReport, OnProgress},
    queue_name,
};
use crate::{
    broker::{BrokerError, BulkAction, BulkSlice, Chosen, ServerState},
    job::BoxFuture,
    task::{ArchiveLimit, GroupName, QueueName, TaskState},
};

/// Most tasks that one call to the broker changes.
const SLICE: usize = 100;

impl From<TaskState> for Chosen {
    /// Chooses all tasks in this state.
    fn from(state: TaskState) -> Self {
        Self::InState(state)
    }
}

impl From<GroupName> for Chosen {
    /// Chooses all tasks that wait in this group.
    fn from(group: GroupName) -> Self {
        Self::InGroup(group)
    }
}

impl Inspector {
    /// Makes all scheduled, retry, archived or aggregating tasks of a queue pending, or all of a group, each as [`run`](Self::run) does:
    /// those with a deadline that has passed are archived again without a run.
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

    /// Archives all pending, scheduled, retry or aggregating tasks of a queue, or all of a group.
    ///
    /// An archive keeps 10,000 tasks unless a server is configured otherwise, and a server **deletes** the oldest of those beyond
    /// that. So nothing is archived if the archive would get more tasks than it keeps ([`InspectError::BeyondArchive`]), unless
    /// [`beyond_archive`](Bulk::beyond_archive) allows it. After [`start`](Bulk::start) the caller must check
    /// [`RunningBulk::beyond_archive_limit`] before the first slice.
    ///
    /// ```no_run
    /// # use asynq_runtime::{inspector::InspectError, prelude::*};
    /// # async fn repair(client: &Client) -> Result<(), BoxError> {
    /// let inspector = client.inspector();
    /// match inspector.archive_all("default", TaskState::Retry).await {
    ///     Err(InspectError::BeyondArchive { beyond, .. }) if beyond < 100 => {
    ///         inspector.archive_all("default", TaskState::Retry).beyond_archive().await?;
    ///     }
    ///     other => drop(other?),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn archive_all(&self, queue: impl AsRef<str>, chosen: impl Into<Chosen>) -> Bulk {
        self.bulk(queue, chosen, BulkAction::Archive)
    }

    /// Deletes all tasks of a queue in one state except active, or all of a group.
    pub fn delete_all(&self, queue: impl AsRef<str>, chosen: impl Into<Chosen>) -> Bulk {
        self.bulk(queue, chosen, BulkAction::Delete)
    }

    fn bulk(&self, queue: impl AsRef<str>, chosen: impl Into<Chosen>, action: BulkAction) -> Bulk {
        Bulk {
            inspector: self.clone(),
            queue: queue_name(queue),
            chosen: chosen.into(),
            action,
            beyond_archive: false,
            at_most: u64::MAX,
            on_progress: OnProgress::default(),
        }
    }

    /// Returns how many tasks the archive of a queue holds and keeps. The limit is the smallest of the living servers of the
    /// queue; 10,000 tasks if none lives.
    ///
    /// # Errors
    ///
    /// The broker failed.
    pub async fn archive_room(&self, queue: impl AsRef<str>) -> Result<ArchiveRoom, InspectError> {
        let queue = queue_name(queue)?;
        let archived = self.broker.queue_stats(&queue).await?.archived;
        let servers = self.broker.servers().await?;
        Ok(ArchiveRoom { archived, limit: ArchiveRoom::limit_of(&servers, &queue) })
    }

    /// How many tasks are chosen now.
    async fn count(&self, queue: &QueueName, chosen: &Chosen) -> Result<u64, BrokerError> {
        Ok(match chosen {
            Chosen::InState(state) => self.broker.queue_stats(queue).await?.count(*state),
            Chosen::InGroup(group) => self.broker.group(queue, group).await?.map_or(0, |stats| stats.size),
        })
    }
}

/// The size of the archive of a queue and its limit; [`Inspector::archive_room`] reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArchiveRoom {
    /// Tasks in the archive.
    pub archived: u64,
    /// Most tasks that are kept.
    pub limit: u64,
}

impl ArchiveRoom {
    /// Returns how many archived tasks of a queue are kept: the smallest limit of those `servers` that serve the queue, or
    /// asynq's 10,000 if none does.
    #[doc(hidden)]
    pub fn limit_of(servers: &[ServerState], queue: &QueueName) -> u64 {
        let serving = servers.iter().filter(|server| server.info.serves(queue));
        serving.map(|server| server.info.archive_limit(queue)).min().unwrap_or(ArchiveLimit::DEFAULT)
    }

    /// Returns how many archived tasks a server deletes, the oldest first, when `tasks` more are archived.
    pub fn beyond(self, tasks: u64) -> u64 {
        self.archived.saturating_add(tasks).saturating_sub(self.limit)
    }
}

/// A change of many tasks, made by `.await` to the end or, after [`start`](Self::start), slice by slice.
///
/// A bulk changes at most as many tasks as existed at its start, so that it ends although other programs enqueue. Each slice of
/// up to 100 is one atomic step. Dropping the future between them leaves a clean state, and the same call continues.
///
/// # Errors
///
/// `.await` fails if the state does not allow the change, the queue or the group does not exist, the archive cannot keep all
/// tasks ([`InspectError::BeyondArchive`]), or the broker failed: then [`InspectError::Interrupted`] reports the tasks that were
/// changed.
#[must_use = "nothing is changed until `.await`"]
#[derive(Debug)]
pub struct Bulk {
    inspector: Inspector,
    queue: Result<QueueName, InspectError>,
    chosen: Chosen,
    action: BulkAction,
    beyond_archive: bool,
    at_most: u64,
    on_progress: OnProgress,
}

impl Bulk {
    /// Calls `callback` before the first slice and after each one.
    pub fn on_progress(mut self, callback: impl FnMut(BulkProgress) + Send + 'static) -> Self {
        self.on_progress = OnProgress::new(callback);
        self
    }

    /// Archives the tasks even if the archive cannot keep all: a server then deletes its oldest ones. The setting applies to
    /// `.await`; after [`start`](Self::start) the caller decides by [`RunningBulk::beyond_archive_limit`].
    pub fn beyond_archive(mut self) -> Self {
        self.beyond_archive = true;
        self
    }

    /// Changes at most the first `tasks` of the listing; default: as many as exist at the start.
    pub fn at_most(mut self, tasks: u64) -> Self {
        self.at_most = tasks;
        self
    }

    /// Counts the chosen tasks, and changes none of them yet. Before grouped tasks are counted, those of sets whose deadline has passed
    /// are released to their groups.
    ///
    /// # Errors
    ///
    /// The errors of `.await` except [`InspectError::BeyondArchive`].
    pub async fn start(self) -> Result<RunningBulk, InspectError> {
        let (inspector, queue, state) = (&self.inspector, self.queue.clone()?, self.chosen.state());
        if !self.action.fits(state) {
            return Err(InspectError::UnfitState { change: TaskChange::of(self.action), state });
        }
        if state == TaskState::Aggregating {
            inspector.reclaim_sets(&queue).await?;
        }
        let there = inspector.count(&queue, &self.chosen).await?;
        let total = there.min(self.at_most);
        if there == 0 {
            inspector.known(&queue).await?;
            if let Chosen::InGroup(group) = &self.chosen {
                return Err(InspectError::no_such_group(&queue, group));
            }
        }
        let more = total > 0;
        let mut room = ArchiveRoom { archived: 0, limit: u64::MAX };
        if self.action == BulkAction::Archive && more {
            room = inspector.archive_room(&queue).await?;
        }
        let progress = BulkProgress { total, ..BulkProgress::default() };
        let mut bulk = RunningBulk { request: self, queue, room, progress, more };
        bulk.request.on_progress.report(progress);
        Ok(bulk)
    }
}

impl IntoFuture for Bulk {
    type Output = Result<BulkReport, InspectError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let may_exceed = self.beyond_archive;
            let mut bulk = self.start().await?;
            let beyond = bulk.beyond_archive_limit();
            if beyond > 0 && !may_exceed {
                return Err(InspectError::BeyondArchive { queue: bulk.queue, limit: bulk.room.limit, beyond });
            }
            while bulk.slice().await?.is_some() {}
            bulk.report().await
        })
    }
}

/// A [`Bulk`] that runs slice by slice.
#[must_use = "nothing is changed until `.slice().await`"]
#[derive(Debug)]
pub struct RunningBulk {
    request: Bulk,
    queue: QueueName,
    /// The archive as it was at the start.
    room: ArchiveRoom,
    progress: BulkProgress,
    more: bool,
}

impl RunningBulk {
    /// Returns how many archived tasks a server deletes, the oldest first, if all chosen tasks are archived, because the archive
    /// does not keep more. The number is counted at the start; zero unless the action archives.
    pub fn beyond_archive_limit(&self) -> u64 {
        self.room.beyond(self.progress.total)
    }

    /// Returns the archive as it was at the start, if the action archives.
    pub fn archive_room(&self) -> ArchiveRoom {
        self.room
    }

    /// Returns how far the bulk is.
    pub fn progress(&self) -> BulkProgress {
        self.progress
    }

    /// Changes the next tasks, at most 100; returns `None` when all are done.
    ///
    /// # Errors
    ///
    /// [`InspectError::Interrupted`]; another call continues.
    pub async fn slice(&mut self) -> Result<Option<BulkProgress>, InspectError> {
        let open = self.progress.total.saturating_sub(self.progress.done);
        let limit = usize::try_from(open).unwrap_or(usize::MAX).min(SLICE);
        if !self.more || limit == 0 {
            return Ok(None);
        }
        let Bulk { inspector, chosen, action, .. } = &self.request;
        let answer = inspector.broker.change_some(&self.queue, chosen, *action, limit).await;
        let slice = answer.map_err(|source| InspectError::Interrupted { done: self.progress.into(), source })?;
        self.more = slice.more && slice != BulkSlice { more: true, ..BulkSlice::default() };
        self.progress.add(slice);
        self.request.on_progress.report(self.progress);
        Ok(Some(self.progress))
    }

    /// Returns the numbers of changed and of remaining tasks.
    ///
    /// # Errors
    ///
    /// [`InspectError::Interrupted`].
    pub async fn report(self) -> Result<BulkReport, InspectError> {
        let Self { request: Bulk { inspector, chosen, action, .. }, queue, room, progress, .. } = self;
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
        Ok(BulkReport { left, beyond_archive_limit: archived.saturating_sub(room.limit), ..done })
    }
}
