//! Contract: read queues, and pause them.

use std::{ops::Deref, time::Duration};

use bytes::Bytes;
use chrono::{DateTime, NaiveDate, Utc};

use super::{BrokerError, TaskEnd, config};
use crate::task::{GroupName, QueueName, TaskId, TaskInfo, TaskState};

/// How often a broker without notifications is asked for its queues.
pub(super) const LOOK_FOR_QUEUES: Duration = Duration::from_millis(500);

/// Reads queues and tasks. Only [`pause`](Self::pause) and [`resume`](Self::resume) change anything.
#[async_trait::async_trait]
pub trait Inspect {
    /// Returns every known queue, by name.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn queues(&self) -> Result<Vec<QueueName>, BrokerError>;

    /// Returns whether the queue is among [`queues`](Self::queues), of which no other is read.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn knows(&self, queue: &QueueName) -> Result<bool, BrokerError>;

    /// Waits until [`queues`](Self::queues) may return other queues than before, at most for `limit`; the first call of a broker
    /// returns at once. Default: waits half a second, because no notification comes.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn wait_for_queues(&self, limit: Duration) -> Result<(), BrokerError> {
        tokio::time::sleep(limit.min(LOOK_FOR_QUEUES)).await;
        Ok(())
    }

    /// Returns counts, latency and pause of a queue; all zero for a queue that does not exist.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn queue_stats(&self, queue: &QueueName) -> Result<QueueStats, BrokerError>;

    /// Returns one page of the tasks in `state`: pending and active tasks oldest first, the others by the second of their time,
    /// ascending; within a second the order is not specified. Aggregating tasks are in this order within each group: SQLite
    /// orders the tasks of all groups by their time, and Redis returns one group after another in no specified order. If a group is
    /// named, its waiting tasks are returned, and `state` is ignored. Tasks of a set are in no list, although their state is aggregating.
    /// Messages that cannot be read are left out, and count as rows of their page.
    ///
    /// Each payload and each result has at most its first `most` bytes; `None` for no limit. A page of whole tasks may be 500 times
    /// 1 MiB.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn list(
        &self,
        queue: &QueueName,
        state: TaskState,
        group: Option<&GroupName>,
        page: Page,
        most: Option<usize>,
    ) -> Result<Vec<TaskBrief>, BrokerError>;

    /// Returns one page of the whole tasks in `state`, as [`list`](Self::list) does.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn tasks(&self, queue: &QueueName, state: TaskState, page: Page) -> Result<Vec<TaskInfo>, BrokerError> {
        let tasks = self.list(queue, state, None, page, None).await?;
        Ok(tasks.into_iter().map(|brief| brief.task).collect())
    }

    /// Returns one task, in any state; `None` if it does not exist or its message cannot be read.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn task(&self, queue: &QueueName, id: &TaskId) -> Result<Option<TaskInfo>, BrokerError>;

    /// Returns the queues that have a task with this id, by name. Ids are unique within a queue only.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn queues_of(&self, id: &TaskId) -> Result<Vec<QueueName>, BrokerError>;

    /// Waits until the task is completed, archived or does not exist, and returns its end: at once if that is so already,
    /// otherwise on the write of any program that makes it so, and at the latest after `limit`, when it asks once more. The
    /// broker has a second to answer then, also after a shorter `limit`; one of zero asks once, as any call does. A task that
    /// waits for its next attempt has not ended.
    ///
    /// The call outlasts an outage of the broker. Any number of calls may wait at the same time; while nothing happens they cost
    /// neither calls of the broker nor processor time. Dropping the future is safe, and one that is not polled delays no other.
    ///
    /// # Errors
    ///
    /// The broker did not answer when `limit` was over, or failed in another way.
    async fn wait_for_end(&self, queue: &QueueName, id: &TaskId, limit: Duration) -> Result<TaskEnd, BrokerError>;

    /// Waits until no task in any of `queues` is pending, active, scheduled, waiting for a retry or in a group or set, all at
    /// the same moment. Returns whether that happened before `limit`, which holds as for [`wait_for_end`](Self::wait_for_end). Paused
    /// queues count as well. The call outlasts an outage of the broker. Dropping the future is safe.
    ///
    /// # Errors
    ///
    /// The errors of [`wait_for_end`](Self::wait_for_end).
    async fn wait_until_idle(&self, queues: &[QueueName], limit: Duration) -> Result<bool, BrokerError>;

    /// Returns the last 10 attempts at a task that ended with an error, the newest first; those that count as no failure, and those that
    /// did not begin, are among them. Crashes of a worker are not, and of the attempts of Go workers only the task's last error is.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn failures(&self, queue: &QueueName, id: &TaskId) -> Result<Vec<Failure>, BrokerError>;

    /// Returns some 1,000 of the held unique locks of a queue at most, and the position of the next page: `after` is [`LockPage::next`] of an
    /// earlier call, `None` at the beginning. On Redis a call looks at a bounded number of the server's keys, so a page may be
    /// empty without being the last. A lock that changes in the meantime may be missed or appear twice. Keys of another type than
    /// a lock's are left out.
    ///
    /// # Errors
    ///
    /// The broker failed, or `after` is not the `next` of an earlier page.
    async fn locks(&self, queue: &QueueName, after: Option<&str>) -> Result<LockPage, BrokerError>;

    /// Returns the counters of the last `days` days (UTC), today first; at most 90, because older counters expire.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn history(&self, queue: &QueueName, days: usize) -> Result<Vec<DayStats>, BrokerError>;

    /// Returns about how many bytes the queue takes: asynq's estimate from up to 20 tasks of each state.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn memory_usage(&self, queue: &QueueName) -> Result<u64, BrokerError>;

    /// Stops dequeues from the queue; returns whether the queue was running before. Active tasks go on. The queue need not exist
    /// yet.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn pause(&self, queue: &QueueName) -> Result<bool, BrokerError>;

    /// Lets dequeues from the queue go on; returns whether the queue was paused before. On Redis a queue that has tasks and is missing
    /// from [`queues`](Self::queues) is there again, too.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn resume(&self, queue: &QueueName) -> Result<bool, BrokerError>;
}

/// Some of the unique locks of a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockPage {
    /// The locks, in no particular order.
    pub locks: Vec<LockInfo>,
    /// The position of the next page; `None` after the last.
    pub next: Option<String>,
}

impl LockPage {
    /// Returns the error for a position that no page had.
    pub(crate) fn nowhere() -> BrokerError {
        config("this is nowhere to go on listing locks; begin anew")
    }
}

/// One unique lock that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// The full key of the lock.
    pub key: String,
    /// The id of the task that holds it.
    pub holder: TaskId,
    /// The state of the holder. `None` if that task does not exist: the lock is then stuck, and refuses tasks of Go programs
    /// until it expires, while this crate's tasks take it over.
    pub state: Option<TaskState>,
    /// When the lock expires; `None` for never.
    pub until: Option<DateTime<Utc>>,
}

/// A task of a listing, with the beginning of its payload and result.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TaskBrief {
    /// The task. Its payload and its result are cut to their first [`BYTES`](Self::BYTES).
    pub task: TaskInfo,
    /// Size of the whole payload in bytes.
    pub payload_size: usize,
    /// Size of the whole result in bytes; 0 if there is none.
    pub result_size: usize,
}

impl TaskBrief {
    /// Most bytes of a payload and of a result in a listing.
    pub const BYTES: usize = 4096;

    /// Cuts a whole task.
    pub fn of(task: TaskInfo) -> Self {
        Self::within(task, Some(Self::BYTES))
    }

    /// Cuts the payload and the result of a whole task to their first `most` bytes each; `None` for no limit.
    pub(crate) fn within(mut task: TaskInfo, most: Option<usize>) -> Self {
        let (payload_size, result_size) = (task.payload.len(), task.result.as_ref().map_or(0, Bytes::len));
        let most = most.unwrap_or(usize::MAX);
        // Copied, so that the whole payload is freed.
        let begin = |bytes: &Bytes| Bytes::copy_from_slice(&bytes[..most]);
        if payload_size > most {
            task.payload = begin(&task.payload);
        }
        if let Some(result) = task.result.as_mut().filter(|result| result.len() > most) {
            *result = begin(result);
        }
        Self { task, payload_size, result_size }
    }

    /// Makes the brief of a task whose payload and result were cut before. `None` means that one was not cut.
    #[cfg(feature = "redis")]
    pub(crate) fn cut(task: TaskInfo, payload_size: Option<usize>, result_size: Option<usize>) -> Self {
        let (payload, result) = (task.payload.len(), task.result.as_ref().map_or(0, Bytes::len));
        Self { payload_size: payload_size.unwrap_or(payload), result_size: result_size.unwrap_or(result), task }
    }

    /// Returns whether the payload is cut.
    pub fn has_cut_payload(&self) -> bool {
        self.payload_size > self.task.payload.len()
    }

    /// Returns whether the result is cut.
    pub fn has_cut_result(&self) -> bool {
        self.result_size > self.task.result.as_ref().map_or(0, Bytes::len)
    }
}

impl Deref for TaskBrief {
    type Target = TaskInfo;

    fn deref(&self) -> &TaskInfo {
        &self.task
    }
}

/// A page of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// The number of the page; 1 is the first.
    pub number: usize,
    /// Tasks per page.
    pub size: usize,
}

impl Default for Page {
    /// The first page of 30 tasks, as in asynq.
    fn default() -> Self {
        Self { number: 1, size: 30 }
    }
}

impl Page {
    /// Returns how many tasks come before the page.
    pub fn offset(self) -> usize {
        self.number.saturating_sub(1).saturating_mul(self.size)
    }
}

/// An attempt that ended with an error, whether or not it counts as a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The number of this one among the attempts at the task that ended with an error, counted from 1; `retried` counts other ones. The
    /// count goes on when an archived task is run again.
    pub number: u32,
    /// When the attempt ended, by the broker's clock.
    pub at: DateTime<Utc>,
    /// The text of the error: up to 4 KiB of the newest, and up to 256 bytes of the others.
    pub error: String,
}

impl Failure {
    /// Makes a failed attempt.
    pub(crate) fn new(number: u32, at: DateTime<Utc>, error: impl Into<String>) -> Self {
        Self { number, at, error: error.into() }
    }

    /// Puts the last error of a task before the failures that are known of the task, the newest first, if it is later than all of
    /// them: a program that keeps no failures has noted it, or it was not of an attempt. Its number is at least the next one.
    pub(crate) fn put_before(mut self, known: &mut Vec<Self>) {
        let newest = known.first();
        if newest.is_none_or(|newest| newest.at < self.at) {
            self.number = self.number.max(newest.map_or(1, |newest| newest.number.saturating_add(1)));
            known.insert(0, self);
        }
    }
}

/// The counters of one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DayStats {
    /// The day, in UTC.
    pub date: NaiveDate,
    /// Runs that ended, failed ones included.
    pub processed: u64,
    /// Runs that failed.
    pub failed: u64,
}

impl DayStats {
    /// Makes the counters of `date`.
    pub fn new(date: NaiveDate, processed: u64, failed: u64) -> Self {
        Self { date, processed, failed }
    }
}

/// A queue at one moment.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct QueueStats {
    /// The name of the queue.
    pub name: QueueName,
    /// Tasks in all states, without those of sets that are being aggregated.
    pub size: u64,
    /// Tasks that are ready to run.
    pub pending: u64,
    /// Running tasks.
    pub active: u64,
    /// Tasks that wait for their time.
    pub scheduled: u64,
    /// Tasks that wait for their next attempt.
    pub retry: u64,
    /// Tasks that were given up.
    pub archived: u64,
    /// Tasks that succeeded and are kept for their retention.
    pub completed: u64,
    /// Tasks that wait in groups, without those of sets. On Redis, if more than 2,000 groups wait, an estimate from the first 2,000 that Redis returns.
    pub aggregating: u64,
    /// Runs that ended today (UTC), failed ones included.
    pub processed: u64,
    /// Runs that failed today (UTC).
    pub failed: u64,
    /// Runs that ended since the beginning.
    pub processed_total: u64,
    /// Runs that failed since the beginning.
    pub failed_total: u64,
    /// For how long the next task has waited, as Go's asynq computes it: the pending task at the head of the queue, or one
    /// that was due and that no server has made pending (from the next whole second on), if that waits longer; zero if none
    /// waits. Requeued tasks, those of a worker that died, and retries of
    /// [`retries_first`](crate::server::ServerBuilder::retries_first) come to the head anew, so older tasks may wait behind it.
    pub latency: Duration,
    /// Whether dequeues are stopped.
    pub paused: bool,
    /// The time of these numbers, by the broker's clock.
    pub timestamp: DateTime<Utc>,
}

impl QueueStats {
    /// Makes the numbers of a queue without tasks.
    pub fn empty(name: QueueName, timestamp: DateTime<Utc>) -> Self {
        Self {
            name,
            size: 0,
            pending: 0,
            active: 0,
            scheduled: 0,
            retry: 0,
            archived: 0,
            completed: 0,
            aggregating: 0,
            processed: 0,
            failed: 0,
            processed_total: 0,
            failed_total: 0,
            latency: Duration::ZERO,
            paused: false,
            timestamp,
        }
    }

    /// Returns how many tasks are in `state`.
    pub fn count(&self, state: TaskState) -> u64 {
        match state {
            TaskState::Pending => self.pending,
            TaskState::Active => self.active,
            TaskState::Scheduled => self.scheduled,
            TaskState::Retry => self.retry,
            TaskState::Archived => self.archived,
            TaskState::Completed => self.completed,
            TaskState::Aggregating => self.aggregating,
        }
    }

    /// Returns whether no task waits, runs or is due later: all tasks are archived or completed, or in a set that is being aggregated.
    pub fn is_idle(&self) -> bool {
        self.pending + self.active + self.scheduled + self.retry + self.aggregating == 0
    }
}
