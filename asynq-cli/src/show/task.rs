//! A task as programs read it.

use asynq_runtime::{
    TaskInfo,
    broker::Failure,
    inspector::{ArgumentReader, Statistics},
};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Payload, time};

/// A task. None of these fields will be renamed or removed; a value that was not given is null. `last_error` and the
/// texts of `failures` are whole.
#[derive(Debug, Serialize)]
pub(crate) struct TaskJson<'a> {
    #[serde(flatten)]
    facts: Value,
    payload: Payload<'a>,
    result: Option<Payload<'a>>,
    /// Whether the task counts as running although no worker runs it.
    orphan: bool,
    /// The last failures, the newest first; only if a single task was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    failures: Option<Vec<Value>>,
}

impl<'a> TaskJson<'a> {
    /// Returns a task at the broker's time `now`, with at most `most` bytes of payload and as many of result. `reader`
    /// knows the shapes of payloads; without it the payload is shown as it is.
    pub(crate) fn of(task: &'a TaskInfo, now: DateTime<Utc>, most: usize, reader: Option<&ArgumentReader>) -> Self {
        Self {
            facts: Statistics::task_to_json(task),
            payload: Payload::of_type(&task.r#type, &task.payload, most, reader),
            result: task.result.as_deref().map(|result| Payload::of(result, most)),
            orphan: task.is_orphan(now),
            failures: None,
        }
    }

    /// Adds the failures of the task.
    pub(crate) fn with_failures(self, failures: &[Failure]) -> Self {
        let failure = |f: &Failure| json!({ "number": f.number, "at": time(f.at), "error": f.error });
        Self { failures: Some(failures.iter().map(failure).collect()), ..self }
    }
}
