//! The two sides: Go's asynq, and ours.

use std::fmt;

use serde_json::{Value, json};

/// One of the two implementations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    Go,
    Rust,
}

impl Side {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Go => Self::Rust,
            Self::Rust => Self::Go,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Go => "go",
            Self::Rust => "rust",
        })
    }
}

/// The side that enqueues, and the side that works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Pair {
    pub(crate) producer: Side,
    pub(crate) worker: Side,
}

impl Pair {
    pub(crate) const ALL: [Self; 4] = [
        Self { producer: Side::Rust, worker: Side::Rust },
        Self { producer: Side::Rust, worker: Side::Go },
        Self { producer: Side::Go, worker: Side::Rust },
        Self { producer: Side::Go, worker: Side::Go },
    ];
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.producer, self.worker)
    }
}

/// A task to enqueue. The type is always `interop:do`, and the payload tells the worker what to do.
#[derive(Debug, Clone, Default)]
pub(crate) struct Order {
    pub(crate) r#do: &'static str,
    pub(crate) text: String,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) retry: Option<u32>,
    pub(crate) timeout_s: u64,
    pub(crate) unique_s: u64,
    pub(crate) delay_ms: u64,
    pub(crate) retention_s: u64,
    pub(crate) task_id: Option<String>,
    pub(crate) group: Option<&'static str>,
}

impl Order {
    pub(crate) fn new(r#do: &'static str, text: impl Into<String>) -> Self {
        Self { r#do, text: text.into(), ..Self::default() }
    }

    pub(crate) fn payload(&self) -> String {
        json!({ "do": self.r#do, "text": self.text }).to_string()
    }

    /// The request to Go's side.
    pub(crate) fn request(&self, queue: &str) -> Value {
        let headers: serde_json::Map<String, Value> =
            self.headers.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        json!({
            "op": "enqueue",
            "queue": queue,
            "type": "interop:do",
            "payload": self.payload(),
            "headers": headers,
            "options": {
                "retry": self.retry,
                "timeout_s": self.timeout_s,
                "unique_s": self.unique_s,
                "delay_ms": self.delay_ms,
                "retention_s": self.retention_s,
                "task_id": self.task_id.clone().unwrap_or_default(),
                "group": self.group.unwrap_or_default(),
            },
        })
    }
}

/// An inspector's view of a task, in the words that both sides have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) id: String,
    pub(crate) queue: String,
    pub(crate) r#type: String,
    pub(crate) payload: String,
    pub(crate) state: String,
    pub(crate) max_retry: u64,
    pub(crate) retried: u64,
    pub(crate) last_error: String,
    pub(crate) timeout_s: f64,
    pub(crate) retention_s: f64,
    pub(crate) group: String,
    pub(crate) result: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Seen {
    /// Reads the view of Go's inspector.
    pub(crate) fn by_go(value: &Value) -> Self {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let number = |field: &str| value[field].as_f64().unwrap_or_default();
        let mut headers: Vec<(String, String)> = value["headers"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
            .collect();
        headers.sort();
        Self {
            id: text("id"),
            queue: text("queue"),
            r#type: text("type"),
            payload: text("payload"),
            state: text("state"),
            max_retry: number("max_retry") as u64,
            retried: number("retried") as u64,
            last_error: text("last_error"),
            timeout_s: number("timeout_s"),
            retention_s: number("retention_s"),
            group: text("group"),
            result: text("result"),
            headers,
        }
    }

    /// Reads the view of our inspector.
    pub(crate) fn by_rust(info: &asynq_runtime::TaskInfo) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut headers = info.headers.clone();
        headers.sort();
        Self {
            id: info.id.to_string(),
            queue: info.queue.to_string(),
            r#type: info.r#type.clone(),
            payload: text(&info.payload),
            state: info.state.to_string(),
            max_retry: info.max_retry.into(),
            retried: info.retried.into(),
            last_error: info.last_error.clone().unwrap_or_default(),
            timeout_s: info.timeout.unwrap_or_default().as_secs_f64(),
            retention_s: info.retention.unwrap_or_default().as_secs_f64(),
            group: info.group.clone().unwrap_or_default(),
            result: info.result.as_deref().map(text).unwrap_or_default(),
            headers,
        }
    }
}
