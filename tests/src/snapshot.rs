//! The visible state of a queue, through the reading side of the contract, in a form that cases compare.

use asynq_runtime::{
    broker::{Broker, NewTask, Page, QueueStats},
    task::{QueueName, TaskInfo, TaskState},
};
use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};

/// Every task of a queue by state, each list in the order of [`Inspect::tasks`](asynq_runtime::broker::Inspect::tasks).
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the fields are the states")]
pub struct Snapshot {
    pub pending: Vec<Entry>,
    pub active: Vec<Entry>,
    pub scheduled: Vec<Entry>,
    pub retry: Vec<Entry>,
    pub archived: Vec<Entry>,
    pub completed: Vec<Entry>,
    /// The counts of the queue.
    pub stats: QueueStats,
}

impl Snapshot {
    pub(crate) async fn of(broker: &dyn Broker, queue: &QueueName) -> Self {
        let list = async |state| {
            let page = Page { number: 1, size: 5000 };
            let tasks = broker.tasks(queue, state, page).await.unwrap();
            assert!(tasks.iter().all(|task| task.state == state), "the list of {state} holds other states: {tasks:?}");
            tasks.into_iter().map(Entry::from).collect()
        };
        Self {
            pending: list(TaskState::Pending).await,
            active: list(TaskState::Active).await,
            scheduled: list(TaskState::Scheduled).await,
            retry: list(TaskState::Retry).await,
            archived: list(TaskState::Archived).await,
            completed: list(TaskState::Completed).await,
            stats: broker.queue_stats(queue).await.unwrap(),
        }
    }

    /// The ids in one state.
    pub fn ids(&self, state: TaskState) -> Vec<&str> {
        let list = match state {
            TaskState::Pending => &self.pending,
            TaskState::Active => &self.active,
            TaskState::Scheduled => &self.scheduled,
            TaskState::Retry => &self.retry,
            TaskState::Archived => &self.archived,
            TaskState::Completed => &self.completed,
            TaskState::Aggregating => panic!("a group is listed by its name: see group_sizes"),
        };
        list.iter().map(|entry| entry.id.as_str()).collect()
    }

    /// The number of tasks in all states.
    pub fn len(&self) -> usize {
        [&self.pending, &self.active, &self.scheduled, &self.retry, &self.archived, &self.completed]
            .into_iter()
            .map(Vec::len)
            .sum()
    }

    /// Whether the queue has no task.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One task as a case expects or sees it. Due times less than a millisecond apart are equal.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields are those of `TaskInfo`")]
pub struct Entry {
    pub id: String,
    pub r#type: String,
    pub payload: Bytes,
    pub max_retry: u32,
    pub retried: u32,
    pub crashes: u32,
    pub error: Option<String>,
    pub failed_at: Option<i64>,
    /// Set for scheduled and retry alone.
    pub due: Option<DateTime<Utc>>,
    pub completed_at: Option<i64>,
    pub result: Option<Bytes>,
    pub progress: Option<(f64, String)>,
}

impl Entry {
    /// `task` as it looks when it has just been enqueued.
    pub fn of(task: &NewTask) -> Self {
        TaskInfo::from_message(&task.message, TaskState::Pending).into()
    }

    /// Sets the number of retries.
    pub fn retried(mut self, n: u32) -> Self {
        self.retried = n;
        self
    }

    /// Sets the number of workers that died while they ran the task.
    pub fn crashes(mut self, n: u32) -> Self {
        self.crashes = n;
        self
    }

    /// Sets the last error and its time.
    pub fn error(mut self, text: &str, at: DateTime<Utc>) -> Self {
        self.error = Some(text.into());
        self.failed_at = Some(at.timestamp());
        self
    }

    /// Sets the due time.
    pub fn due(mut self, at: DateTime<Utc>) -> Self {
        self.due = Some(at);
        self
    }

    /// Sets the time of the success.
    pub fn completed(mut self, at: DateTime<Utc>) -> Self {
        self.completed_at = Some(at.timestamp());
        self
    }

    /// Sets the result.
    pub fn result(mut self, bytes: &str) -> Self {
        self.result = Some(Bytes::copy_from_slice(bytes.as_bytes()));
        self
    }
}

impl From<TaskInfo> for Entry {
    fn from(info: TaskInfo) -> Self {
        let waits = matches!(info.state, TaskState::Scheduled | TaskState::Retry);
        Self {
            id: info.id.to_string(),
            r#type: info.r#type,
            payload: info.payload,
            max_retry: info.max_retry,
            retried: info.retried,
            crashes: info.crashes,
            error: info.last_error,
            failed_at: info.last_failed_at.map(|at| at.timestamp()),
            due: info.next_process_at.filter(|_| waits),
            completed_at: info.completed_at.map(|at| at.timestamp()),
            result: info.result,
            progress: info.progress.map(|progress| (progress.fraction, progress.note)),
        }
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        let due = match (self.due, other.due) {
            (Some(a), Some(b)) => (a - b).abs() < TimeDelta::milliseconds(1),
            (a, b) => a == b,
        };
        let (a, b) = (self, other);
        due && (&a.id, &a.r#type, &a.payload, a.max_retry, a.retried)
            == (&b.id, &b.r#type, &b.payload, b.max_retry, b.retried)
            && (a.crashes, &a.error, a.failed_at) == (b.crashes, &b.error, b.failed_at)
            && (a.completed_at, &a.result, &a.progress) == (b.completed_at, &b.result, &b.progress)
    }
}
