//! Contract: look into queues, and pause them.

use std::{ops::Deref, time::Duration};

use bytes::Bytes;
use chrono::{DateTime, NaiveDate, Utc};

use super::{BrokerError, TaskEnd};
use crate::task::{GroupName, QueueName, TaskId, TaskInfo, TaskState};

/// Between two looks for queues that came or went, where no notification tells.
const LOOK_FOR_QUEUES: Duration = Duration::from_millis(500);

/// Reads without changing, but for the pause.
#[async_trait::async_trait]
pub trait Inspect {
    /// Every known queue, by name.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn queues(&self) -> Result<Vec<QueueName>, BrokerError>;

    /// Returns when [`queues`](Self::queues) may have others to tell than before, and at the latest after `limit`; the first call
    /// of a broker returns at once. Default: after half a second, because nobody tells.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn wait_for_queues(&self, limit: Duration) -> Result<(), BrokerError> {
        tokio::time::sleep(limit.min(LOOK_FOR_QUEUES)).await;
        Ok(())
    }

    /// Counts, latency and pause of a queue; all zero for one that does not exist.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn queue_stats(&self, queue: &QueueName) -> Result<QueueStats, BrokerError>;

    /// One page of the tasks in `state`: pending and active oldest first, the others by the second of their time, ascending;
    /// within a second in no promised order. Aggregating tasks come so within each group; SQLite orders those of all groups by
    /// their time, on Redis one group follows another in no promised order. Messages that cannot be read are left out.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn tasks(&self, queue: &QueueName, state: TaskState, page: Page) -> Result<Vec<TaskInfo>, BrokerError>;

    /// The same as [`tasks`](Self::tasks), or as [`group_tasks`](Self::group_tasks) where a group is named, with at most
    /// [`TaskBrief::BYTES`] of each payload and result. A page of whole tasks may be 500 times 1 MiB.
    ///
    /// Default: reads all and leaves out what is more.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn briefs(
        &self,
        queue: &QueueName,
        state: TaskState,
        group: Option<&GroupName>,
        page: Page,
    ) -> Result<Vec<TaskBrief>, BrokerError> {
        let tasks = match group {
            Some(group) => self.group_tasks(queue, group, page).await?,
            None => self.tasks(queue, state, page).await?,
        };
        Ok(tasks.into_iter().map(TaskBrief::of).collect())
    }

    /// One task, in whatever state.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn task(&self, queue: &QueueName, id: &TaskId) -> Result<Option<TaskInfo>, BrokerError>;

    /// Returns the queues in which there is a task of this id, by name: ids are unique within a queue.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn queues_of(&self, id: &TaskId) -> Result<Vec<QueueName>, BrokerError>;

    /// Waits until the task is completed, archived or not there, and returns what is left of it: at once if it is so already,
    /// otherwise on the write by anyone that makes it so, and at the latest after `limit`. However short `limit` is, the broker is
    /// asked once. A task that waits for its next attempt has not ended.
    ///
    /// An outage in between is waited out. Any number of calls may wait at the same time; while nothing happens they cost
    /// neither calls of the broker nor processor time. Dropping the future is safe.
    ///
    /// # Errors
    ///
    /// The broker was away when `limit` was over, or failed in another way.
    async fn wait_for_end(&self, queue: &QueueName, id: &TaskId, limit: Duration) -> Result<TaskEnd, BrokerError>;

    /// Waits until no task in any of `queues` is pending, active, scheduled, waiting for a retry or waiting in a group, at one and
    /// the same moment; returns whether it came to that before `limit`. However short `limit` is, the broker is asked once.
    /// Paused queues count as well. An outage in between is waited out. Dropping the future is safe.
    ///
    /// # Errors
    ///
    /// As [`wait_for_end`](Self::wait_for_end).
    async fn wait_until_idle(&self, queues: &[QueueName], limit: Duration) -> Result<bool, BrokerError>;

    /// One page of the tasks that wait in one group, by the second in which they joined it, ascending.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn group_tasks(&self, queue: &QueueName, group: &GroupName, page: Page)
    -> Result<Vec<TaskInfo>, BrokerError>;

    /// How the last 10 failed attempts of a task ended, the newest first. Crashes of a worker are not among them; what
    /// a Go worker saw is not known beyond the task's last error.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn failures(&self, queue: &QueueName, id: &TaskId) -> Result<Vec<Failure>, BrokerError>;

    /// Some of the unique locks of a queue that are held, and where to go on: `after` is what an earlier call said, `None` at
    /// the beginning. On Redis a call looks at a bounded number of the server's keys, so that it may find none and not be the
    /// last; a lock that changes meanwhile may be missed or come twice. Of another type than a lock is none.
    ///
    /// # Errors
    ///
    /// The broker failed, or `after` is nothing that it said.
    async fn locks(&self, queue: &QueueName, after: Option<&str>) -> Result<LockPage, BrokerError>;

    /// The counters of the last `days` days (UTC), today first; at most 90, which is as long as they are kept.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn history(&self, queue: &QueueName, days: usize) -> Result<Vec<DayStats>, BrokerError>;

    /// About how many bytes the queue takes: asynq's estimate from up to 20 tasks of each state.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn memory_usage(&self, queue: &QueueName) -> Result<u64, BrokerError>;

    /// Stops dequeues from the queue; returns whether it was running. Tasks that run go on; the queue need not exist yet.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn pause(&self, queue: &QueueName) -> Result<bool, BrokerError>;

    /// Lets dequeues go on; returns whether it was paused.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn resume(&self, queue: &QueueName) -> Result<bool, BrokerError>;
}

/// Some of the unique locks of a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockPage {
    /// The locks, in no particular order.
    pub locks: Vec<LockInfo>,
    /// Where to go on; `None` where these were the last.
    pub next: Option<String>,
}

/// One unique lock that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// Its full key.
    pub key: String,
    /// The id of the task that holds it.
    pub holder: TaskId,
    /// The state of that task; `None` where there is no such task: then the lock is stuck, and refuses tasks of Go programs until
    /// it ends. Tasks of ours take it over.
    pub state: Option<TaskState>,
    /// When it ends by itself; `None` for never.
    pub until: Option<DateTime<Utc>>,
}

/// A task of a listing, with the beginning of what may be large.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TaskBrief {
    /// The task; its payload and its result have at most [`BYTES`](Self::BYTES), the first ones.
    pub task: TaskInfo,
    /// Bytes of its whole payload.
    pub payload_size: usize,
    /// Bytes of its whole result; 0 if there is none.
    pub result_size: usize,
}

impl TaskBrief {
    /// Most bytes of a payload and of a result in a listing.
    pub const BYTES: usize = 4096;

    /// A task that is there as a whole, cut.
    pub fn of(mut task: TaskInfo) -> Self {
        let (payload_size, result_size) = (task.payload.len(), task.result.as_ref().map_or(0, Bytes::len));
        // Copied, so that the rest is freed.
        let begin = |bytes: &Bytes| Bytes::copy_from_slice(&bytes[..Self::BYTES]);
        if payload_size > Self::BYTES {
            task.payload = begin(&task.payload);
        }
        if let Some(result) = task.result.as_mut().filter(|result| result.len() > Self::BYTES) {
            *result = begin(result);
        }
        Self { task, payload_size, result_size }
    }

    /// A task whose payload and result were cut before, with their sizes where they were.
    #[cfg(feature = "redis")]
    pub(crate) fn cut(task: TaskInfo, payload_size: Option<usize>, result_size: Option<usize>) -> Self {
        let (payload, result) = (task.payload.len(), task.result.as_ref().map_or(0, Bytes::len));
        Self { payload_size: payload_size.unwrap_or(payload), result_size: result_size.unwrap_or(result), task }
    }

    /// Whether the payload is only the beginning.
    pub fn has_cut_payload(&self) -> bool {
        self.payload_size > self.task.payload.len()
    }

    /// Whether the result is only the beginning.
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
    /// 1 is the first.
    pub number: usize,
    /// Tasks per page.
    pub size: usize,
}

impl Default for Page {
    /// The first 30, as in asynq.
    fn default() -> Self {
        Self { number: 1, size: 30 }
    }
}

impl Page {
    /// How many tasks come before the page.
    pub fn offset(self) -> usize {
        self.number.saturating_sub(1).saturating_mul(self.size)
    }
}

/// How one attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// Which failed attempt of the task it was, counted from 1; it goes on counting when somebody runs an archived task
    /// again.
    pub number: u32,
    /// When it failed, by the broker's clock.
    pub at: DateTime<Utc>,
    /// The text of the error.
    pub error: String,
}

impl Failure {
    /// One failed attempt.
    pub fn new(number: u32, at: DateTime<Utc>, error: impl Into<String>) -> Self {
        Self { number, at, error: error.into() }
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
    /// The counters of `date`.
    pub fn new(date: NaiveDate, processed: u64, failed: u64) -> Self {
        Self { date, processed, failed }
    }
}

/// A queue at one moment.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Its name.
    pub name: QueueName,
    /// Tasks in it, in all states.
    pub size: u64,
    /// Ready tasks.
    pub pending: u64,
    /// Running tasks.
    pub active: u64,
    /// Tasks waiting for their time.
    pub scheduled: u64,
    /// Tasks waiting for their next attempt.
    pub retry: u64,
    /// Given-up tasks.
    pub archived: u64,
    /// Kept successes.
    pub completed: u64,
    /// Tasks waiting in groups; on Redis, where more than 2,000 groups wait, an estimate from the first 2,000 that Redis tells.
    pub aggregating: u64,
    /// Runs that ended today (UTC), failed ones included.
    pub processed: u64,
    /// Runs that failed today (UTC).
    pub failed: u64,
    /// Runs that ended since the beginning.
    pub processed_total: u64,
    /// Runs that failed since the beginning.
    pub failed_total: u64,
    /// How long the oldest pending task has been waiting; zero if none is.
    pub latency: Duration,
    /// Whether dequeues are stopped.
    pub paused: bool,
    /// The broker's time of these numbers.
    pub timestamp: DateTime<Utc>,
}

impl QueueStats {
    /// A queue of this name with nothing in it.
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

    /// How many of its tasks are in `state`.
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

    /// Whether no task waits, runs or is due later: all that is left is archived or completed.
    pub fn is_idle(&self) -> bool {
        self.pending + self.active + self.scheduled + self.retry + self.aggregating == 0
    }
}
