//! The messages by which servers and schedulers show themselves: `ServerInfo`, `WorkerInfo`, `SchedulerEntry` and
//! `SchedulerEnqueueEvent` (PROTOCOL §3).

use bytes::Bytes;
use chrono::{DateTime, Utc};

/// `google.protobuf.Timestamp`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Timestamp {
    /// Unix seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Nanoseconds within the second.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl From<DateTime<Utc>> for Timestamp {
    fn from(at: DateTime<Utc>) -> Self {
        Self { seconds: at.timestamp(), nanos: at.timestamp_subsec_nanos().min(999_999_999) as i32 }
    }
}

impl Timestamp {
    /// Go's zero time, which asynq writes for "never"; an absent field would read as 1970.
    pub const NEVER: Self = Self { seconds: -62_135_596_800, nanos: 0 };

    /// The instant, or `None` where it is outside chrono's range.
    pub fn to_datetime(self) -> Option<DateTime<Utc>> {
        DateTime::from_timestamp(self.seconds, u32::try_from(self.nanos).ok()?)
    }
}

/// A worker process as it shows itself to asynqmon and the command lines.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ServerInfo {
    /// Host name.
    #[prost(string, tag = "1")]
    pub host: String,
    /// Process id.
    #[prost(int32, tag = "2")]
    pub pid: i32,
    /// UUID of the server object; joins with [`WorkerInfo::server_id`].
    #[prost(string, tag = "3")]
    pub server_id: String,
    /// Most tasks at a time.
    #[prost(int32, tag = "4")]
    pub concurrency: i32,
    /// Queues with their weights.
    #[prost(message, repeated, tag = "5")]
    pub queues: Vec<QueueWeight>,
    /// Whether weights are strict priorities.
    #[prost(bool, tag = "6")]
    pub strict_priority: bool,
    /// `new`, `active`, `stopped` or `closed`.
    #[prost(string, tag = "7")]
    pub status: String,
    /// When the server started.
    #[prost(message, optional, tag = "8")]
    pub start_time: Option<Timestamp>,
    /// How many tasks it runs now.
    #[prost(int32, tag = "9")]
    pub active_worker_count: i32,
    /// Our version, which tells Rust servers from Go's; Go skips a field it does not know (PROTOCOL H4).
    #[prost(string, tag = "1000")]
    pub rust_version: String,
}

/// One entry of [`ServerInfo::queues`]; `optional` for the reason given at [`Header`](super::Header).
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct QueueWeight {
    /// Queue name.
    #[prost(string, optional, tag = "1")]
    pub queue: Option<String>,
    /// Its weight or priority.
    #[prost(int32, optional, tag = "2")]
    pub weight: Option<i32>,
}

/// One task that a server runs now.
#[derive(Clone, PartialEq, prost::Message)]
pub struct WorkerInfo {
    /// Host name.
    #[prost(string, tag = "1")]
    pub host: String,
    /// Process id.
    #[prost(int32, tag = "2")]
    pub pid: i32,
    /// UUID of the server object.
    #[prost(string, tag = "3")]
    pub server_id: String,
    /// Id of the task.
    #[prost(string, tag = "4")]
    pub task_id: String,
    /// Its type.
    #[prost(string, tag = "5")]
    pub task_type: String,
    /// Its payload, cut to 1 KiB (RELIABILITY F35).
    #[prost(bytes = "bytes", tag = "6")]
    pub task_payload: Bytes,
    /// Its queue.
    #[prost(string, tag = "7")]
    pub queue: String,
    /// When the attempt began.
    #[prost(message, optional, tag = "8")]
    pub start_time: Option<Timestamp>,
    /// When the attempt must end.
    #[prost(message, optional, tag = "9")]
    pub deadline: Option<Timestamp>,
}

/// A periodic entry as its scheduler shows it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SchedulerEntry {
    /// Names the entry; ours stays the same across restarts.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The schedule as text.
    #[prost(string, tag = "2")]
    pub spec: String,
    /// Type of its tasks.
    #[prost(string, tag = "3")]
    pub task_type: String,
    /// Their payload.
    #[prost(bytes = "bytes", tag = "4")]
    pub task_payload: Bytes,
    /// Their options in Go's form (PROTOCOL §9.4). Each must contain `(`, or Go's readers panic (D15).
    #[prost(string, repeated, tag = "5")]
    pub enqueue_options: Vec<String>,
    /// Its next time, [`Timestamp::NEVER`] if there is none.
    #[prost(message, optional, tag = "6")]
    pub next_enqueue_time: Option<Timestamp>,
    /// The time of its last tick, [`Timestamp::NEVER`] if there was none; never absent (D14).
    #[prost(message, optional, tag = "7")]
    pub prev_enqueue_time: Option<Timestamp>,
}

/// One enqueue of a periodic entry.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SchedulerEnqueueEvent {
    /// The task.
    #[prost(string, tag = "1")]
    pub task_id: String,
    /// When it was enqueued.
    #[prost(message, optional, tag = "2")]
    pub enqueue_time: Option<Timestamp>,
}
