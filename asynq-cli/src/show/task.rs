//! A task as programs read it.

use asynq_runtime::{TaskInfo, broker::Failure, inspector::ArgumentReader};
use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{Payload, time};

/// A task. None of these fields will be renamed or removed; a value that was not given is null. `last_error` and the
/// texts of `failures` are whole.
#[derive(Debug, Serialize)]
pub(crate) struct TaskJson<'a> {
    id: &'a str,
    queue: &'a str,
    r#type: &'a str,
    state: &'static str,
    payload: Payload<'a>,
    retried: u32,
    max_retry: u32,
    crashes: u32,
    last_error: Option<&'a str>,
    last_failed_at: Option<String>,
    next_process_at: Option<String>,
    timeout_seconds: Option<f64>,
    deadline: Option<String>,
    lease_until: Option<String>,
    /// Whether the task counts as running although no worker runs it.
    orphan: bool,
    progress: Option<ProgressJson<'a>>,
    completed_at: Option<String>,
    retention_seconds: Option<f64>,
    result: Option<Payload<'a>>,
    unique_key: Option<&'a str>,
    group: Option<&'a str>,
    headers: Vec<HeaderJson<'a>>,
    /// The last failures, the newest first; only if a single task was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    failures: Option<Vec<FailureJson<'a>>>,
}

#[derive(Debug, Serialize)]
struct ProgressJson<'a> {
    fraction: f64,
    note: &'a str,
}

#[derive(Debug, Serialize)]
struct HeaderJson<'a> {
    key: &'a str,
    value: &'a str,
}

#[derive(Debug, Serialize)]
struct FailureJson<'a> {
    number: u32,
    at: String,
    error: &'a str,
}

impl<'a> TaskJson<'a> {
    /// Returns a task at the broker's time `now`, with at most `most` bytes of payload and as many of result. `reader`
    /// knows the shapes of payloads.
    pub(crate) fn of(task: &'a TaskInfo, now: DateTime<Utc>, most: usize, reader: &ArgumentReader) -> Self {
        let header = |(key, value): &'a (String, String)| HeaderJson { key, value };
        Self {
            id: task.id.as_str(),
            queue: task.queue.as_str(),
            r#type: &task.r#type,
            state: task.state.as_str(),
            payload: Payload::of_type(&task.r#type, &task.payload, most, reader),
            retried: task.retried,
            max_retry: task.max_retry,
            crashes: task.crashes,
            last_error: task.last_error.as_deref(),
            last_failed_at: task.last_failed_at.map(time),
            next_process_at: task.next_process_at.map(time),
            timeout_seconds: task.timeout.map(|span| span.as_secs_f64()),
            deadline: task.deadline.map(time),
            lease_until: task.lease_until.map(time),
            orphan: task.is_orphan(now),
            progress: task.progress.as_ref().map(|p| ProgressJson { fraction: p.fraction, note: &p.note }),
            completed_at: task.completed_at.map(time),
            retention_seconds: task.retention.map(|span| span.as_secs_f64()),
            result: task.result.as_deref().map(|result| Payload::of(result, most)),
            unique_key: task.unique_key.as_deref(),
            group: task.group.as_deref(),
            headers: task.headers.iter().map(header).collect(),
            failures: None,
        }
    }

    /// Adds the failures of the task.
    pub(crate) fn with_failures(self, failures: &'a [Failure]) -> Self {
        let failure = |f: &'a Failure| FailureJson { number: f.number, at: time(f.at), error: &f.error };
        Self { failures: Some(failures.iter().map(failure).collect()), ..self }
    }
}
