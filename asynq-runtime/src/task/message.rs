//! A task's message on the wire: asynq's `TaskMessage`, byte for byte.

use bytes::Bytes;
use prost::Message as _;

use super::{QueueName, TaskId};

/// One task as it is stored by every asynq program.
///
/// Fields are in asynq.proto's order with its numbers; a zero or empty field is not written. Units are whole seconds and Unix
/// seconds, as on the wire. Unknown fields are dropped when a message is written again, as in Go.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub struct TaskMessage {
    /// Name of the job that runs this task.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// Encoded arguments; opaque here.
    #[prost(bytes = "bytes", tag = "2")]
    pub payload: Bytes,
    /// Task id, unique in its queue.
    #[prost(string, tag = "3")]
    pub id: String,
    /// Queue name.
    #[prost(string, tag = "4")]
    pub queue: String,
    /// How often the task may be retried.
    #[prost(int32, tag = "5")]
    pub retry: i32,
    /// How many retries the task has spent: one for each failure, but none for one that archived it.
    #[prost(int32, tag = "6")]
    pub retried: i32,
    /// Text of the last error; empty if the task never failed.
    #[prost(string, tag = "7")]
    pub error_msg: String,
    /// Seconds that one attempt may take; 0 = until the deadline, or 30 minutes where there is none.
    #[prost(int64, tag = "8")]
    pub timeout: i64,
    /// Unix second after which no attempt may run; 0 = none.
    #[prost(int64, tag = "9")]
    pub deadline: i64,
    /// Full Redis key of the unique lock; empty = not unique.
    #[prost(string, tag = "10")]
    pub unique_key: String,
    /// Unix second of the last failure; 0 = never.
    #[prost(int64, tag = "11")]
    pub last_failed_at: i64,
    /// Seconds to keep the task after success; 0 = delete at once.
    #[prost(int64, tag = "12")]
    pub retention: i64,
    /// Unix second of the success; 0 = not completed.
    #[prost(int64, tag = "13")]
    pub completed_at: i64,
    /// Group that the task waits in; empty = none.
    #[prost(string, tag = "14")]
    pub group_key: String,
    /// User metadata, in the order given (Go writes a map in random order).
    #[prost(message, repeated, tag = "15")]
    pub headers: Vec<Header>,
}

/// One entry of [`TaskMessage::headers`].
///
/// The fields of this map entry are `optional`: Go writes empty keys and values, and prost's own `map` would drop them.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Header {
    /// The name.
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    /// The value.
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

impl Header {
    /// Returns a header with both parts present, as Go writes it.
    pub fn new(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { key: Some(key.into()), value: Some(value.into()) }
    }
}

/// Bytes that are not a task message; they are kept so that nothing is lost.
#[derive(Clone, PartialEq, thiserror::Error)]
#[error("undecodable task message ({} bytes): {reason}", raw.len())]
pub struct UndecodableMessage {
    /// The bytes as they were found.
    pub raw: Bytes,
    /// The decoder's error.
    pub reason: String,
}

impl TaskMessage {
    /// Returns the bytes that Go would write.
    pub fn encode(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    /// Reads a message; `payload` shares memory with `raw`.
    ///
    /// # Errors
    ///
    /// [`UndecodableMessage`] keeps the bytes.
    pub fn decode(raw: Bytes) -> Result<Self, UndecodableMessage> {
        prost::Message::decode(raw.clone())
            .map_err(|error: prost::DecodeError| UndecodableMessage { raw, reason: error.to_string() })
    }

    /// The type of a message in place of one that cannot be read.
    pub(crate) const UNDECODABLE: &str = "undecodable";

    /// Returns a message in place of one that cannot be read, with its bytes as the payload: nothing is lost, and no job runs the
    /// task. Tools show no byte of it, because the message may have held a secret, unless they are asked for the bytes as they
    /// are. The message's type is `undecodable`.
    pub(crate) fn in_place_of(raw: Bytes, id: &TaskId, queue: &QueueName) -> Self {
        Self {
            r#type: Self::UNDECODABLE.to_owned(),
            payload: raw,
            id: id.to_string(),
            queue: queue.to_string(),
            ..Self::default()
        }
    }

    /// Returns how many retries the task has spent; none where another program wrote a negative number.
    pub(crate) fn spent_retries(&self) -> u32 {
        u32::try_from(self.retried).unwrap_or(0)
    }

    /// Returns how often the task may be retried; never where another program wrote a negative number.
    pub(crate) fn max_retry(&self) -> u32 {
        u32::try_from(self.retry).unwrap_or(0)
    }

    /// Returns the name and the value of every header.
    pub(crate) fn named_headers(&self) -> Vec<(String, String)> {
        self.headers.iter().map(|header| (header.key().to_owned(), header.value().to_owned())).collect()
    }

    /// Returns the value of the first header named `key`.
    pub fn header(&self, key: &str) -> Option<&str> {
        self.headers.iter().find(|header| header.key() == key).map(Header::value)
    }
}

/// Returns how long bytes are, for a `Debug`: arguments and results may hold secrets, and a log line does not need them.
pub(crate) fn length<'a>(bytes: impl Into<Option<&'a Bytes>>) -> String {
    bytes.into().map_or_else(|| "none".to_owned(), |bytes| format!("{} bytes", bytes.len()))
}

partial_debug!(UndecodableMessage { raw as length, reason, .. });
partial_debug!(TaskMessage {
    r#type, payload as length, id, queue, retry, retried, error_msg, timeout, deadline, unique_key, last_failed_at, retention,
    completed_at, group_key, headers, ..
});
