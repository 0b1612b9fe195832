//! The messages by which servers and schedulers show themselves: `ServerInfo`, `WorkerInfo`, `SchedulerEntry` and
//! `SchedulerEnqueueEvent`.

use asynq_grammar::pattern::matches;
use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};

use super::QueueName;

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

    /// The instant, or `None` for [`NEVER`](Self::NEVER) and where it is outside chrono's range.
    pub fn to_datetime(self) -> Option<DateTime<Utc>> {
        if self == Self::NEVER {
            return None;
        }
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
    /// Our version, which tells Rust servers from Go's; Go skips a field it does not know.
    #[prost(string, tag = "1000")]
    pub rust_version: String,
    /// How far the clock of its host was ahead of the broker's at this beat, milliseconds; negative when it was behind.
    /// Ours on Redis say it; Go skips it as well.
    #[prost(sint64, optional, tag = "1001")]
    pub clock_ahead_ms: Option<i64>,
    /// How many archived tasks it keeps, where its program says so; the first that means a queue holds. Go skips it.
    #[prost(message, repeated, tag = "1002")]
    pub archives: Vec<ArchiveLimit>,
}

impl ServerInfo {
    /// Whether it takes tasks from `queue`: it names the queue or, as only ours do, a pattern such as `tenant:*` that means
    /// it.
    pub fn serves(&self, queue: &QueueName) -> bool {
        // Nothing is special in the name of a Go program's queue.
        let means = |name: &str| if self.is_gos() { name == queue.as_str() } else { matches(name, queue.as_str()) };
        self.queues.iter().filter_map(|served| served.queue.as_deref()).any(means)
    }

    /// How many archived tasks of `queue` it keeps: it deletes the oldest of those that are more. 10,000 unless its program
    /// says otherwise, and for Go's servers.
    pub fn archive_limit(&self, queue: &QueueName) -> u64 {
        let said = self.archives.iter().find(|limit| matches(&limit.queue, queue.as_str()));
        said.map_or(ArchiveLimit::DEFAULT, |limit| limit.tasks)
    }

    /// Whether it is a Go program.
    pub fn is_gos(&self) -> bool {
        self.rust_version.is_empty()
    }
}

/// One entry of [`ServerInfo::archives`].
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ArchiveLimit {
    /// A queue, or a pattern such as `tenant:*`.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// Most archived tasks of each such queue.
    #[prost(uint64, tag = "2")]
    pub tasks: u64,
}

impl ArchiveLimit {
    /// How many archived tasks a queue keeps unless a server says otherwise, as in asynq.
    pub const DEFAULT: u64 = 10_000;
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
    /// Its payload, cut to 1 KiB.
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

impl WorkerInfo {
    /// Since when a listed run counts as stuck, from its deadline on: a job has 5 s to notice that its time is over, and a
    /// server lists what it runs every 5 s.
    const STUCK_AFTER: TimeDelta = TimeDelta::seconds(10);

    /// Whether the run outlives its deadline: a blocking job does whose thread does not return, or an async one that
    /// blocks its thread. Its task, its slot and its lease wait for it. `now` is the broker's time.
    pub fn is_stuck(&self, now: DateTime<Utc>) -> bool {
        let deadline = self.deadline.and_then(Timestamp::to_datetime);
        deadline.is_some_and(|deadline| now.signed_duration_since(deadline) > Self::STUCK_AFTER)
    }
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
    /// Their options in Go's form. Each must contain `(`, or Go's readers panic.
    #[prost(string, repeated, tag = "5")]
    pub enqueue_options: Vec<String>,
    /// Its next time, [`Timestamp::NEVER`] if there is none.
    #[prost(message, optional, tag = "6")]
    pub next_enqueue_time: Option<Timestamp>,
    /// The time of its last tick, [`Timestamp::NEVER`] if there was none; never absent.
    #[prost(message, optional, tag = "7")]
    pub prev_enqueue_time: Option<Timestamp>,
    /// Ours: what a tick enqueues, with all that the options in Go's form cannot say. Go's readers skip it.
    #[prost(message, optional, tag = "100")]
    pub task: Option<ListedTask>,
}

/// The task of a listed entry as a tick enqueues it, its payload and its id aside.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListedTask {
    /// The message, encoded.
    #[prost(bytes = "bytes", tag = "1")]
    pub message: Bytes,
    /// What the message cannot carry, encoded.
    #[prost(bytes = "bytes", tag = "2")]
    pub extra: Bytes,
    /// Unix milliseconds from which its times count.
    #[prost(int64, tag = "3")]
    pub bound_ms: i64,
    /// Whether its deadline counts from the enqueue.
    #[prost(bool, tag = "4")]
    pub deadline_moves: bool,
    /// Whether its expiry counts from the enqueue.
    #[prost(bool, tag = "5")]
    pub expiry_moves: bool,
    /// Seconds that its unique lock is held at most; 0 = it has none.
    #[prost(uint64, tag = "6")]
    pub lock_seconds: u64,
    /// Milliseconds by which it is deferred; 0 = not at all.
    #[prost(int64, tag = "7")]
    pub delay_ms: i64,
    /// Unix milliseconds of the moment for which it is scheduled; 0 = none.
    #[prost(int64, tag = "8")]
    pub at_ms: i64,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_is_no_instant() {
        let at = DateTime::from_timestamp(1_893_553_445, 678_912_345).unwrap();
        assert_eq!(Timestamp::from(at).to_datetime(), Some(at));
        assert_eq!(Timestamp::default().to_datetime(), Some(DateTime::UNIX_EPOCH));
        for none in [Timestamp::NEVER, Timestamp { seconds: i64::MAX, nanos: 0 }, Timestamp { seconds: 0, nanos: -1 }] {
            assert_eq!(none.to_datetime(), None, "{none:?}");
        }
    }

    #[test]
    fn a_run_is_stuck_when_its_deadline_has_passed_by_more_than_a_listing_is_old() {
        let deadline = DateTime::from_timestamp(1_893_553_445, 0).unwrap();
        let worker = WorkerInfo { deadline: Some(deadline.into()), ..WorkerInfo::default() };
        for (milliseconds, expected) in [(-1, false), (0, false), (10_000, false), (10_001, true), (86_400_000, true)] {
            assert_eq!(worker.is_stuck(deadline + TimeDelta::milliseconds(milliseconds)), expected, "{milliseconds}");
        }
        let never = WorkerInfo { deadline: Some(Timestamp::NEVER), ..WorkerInfo::default() };
        assert!(!never.is_stuck(deadline) && !WorkerInfo::default().is_stuck(deadline), "it has no deadline");
    }

    #[test]
    fn a_server_serves_the_queues_that_it_names_and_ours_those_of_their_patterns() {
        let queues = ["default", "tenant:*"].map(|queue| QueueWeight { queue: Some(queue.into()), weight: Some(1) });
        let go = ServerInfo { queues: queues.into(), ..ServerInfo::default() };
        let ours = ServerInfo { rust_version: "0.1.0".into(), ..go.clone() };
        assert!(go.is_gos() && !ours.is_gos());
        for (queue, by_go, by_ours) in [
            ("default", true, true),
            ("tenant:7", false, true),
            ("tenant:*", true, true),
            ("tenant", false, false),
            ("other", false, false),
        ] {
            let queue = QueueName::from_wire(queue);
            assert_eq!((go.serves(&queue), ours.serves(&queue)), (by_go, by_ours), "{queue}");
        }
    }
}
