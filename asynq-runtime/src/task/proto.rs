//! The messages by which servers and schedulers show themselves: `ServerInfo`, `WorkerInfo`, `SchedulerEntry` and
//! `SchedulerEnqueueEvent`.

use std::cmp::Reverse;

use asynq_grammar::pattern::matches;
use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};

use super::{GroupName, QueueName, length};

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

    /// Returns the instant, or `None` for [`NEVER`](Self::NEVER) and where it is outside chrono's range.
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
    /// How many tasks the server runs now.
    #[prost(int32, tag = "9")]
    pub active_worker_count: i32,
    /// The version of a Rust server, empty for a Go server; Go skips a field that it does not know.
    #[prost(string, tag = "1000")]
    pub rust_version: String,
    /// How far the host's clock was ahead of the broker's at this heartbeat, in milliseconds; negative when it was behind.
    /// Only Rust servers on Redis set this field; Go skips it.
    #[prost(sint64, optional, tag = "1001")]
    pub clock_ahead_ms: Option<i64>,
    /// How many archived tasks a queue keeps, if the server's program says so; the first matching entry counts. Go skips it.
    #[prost(message, repeated, tag = "1002")]
    pub archives: Vec<ArchiveLimit>,
    /// The types whose tasks the server aggregates. Only Rust servers set this field; Go skips it.
    #[prost(string, repeated, tag = "1003")]
    pub aggregated_types: Vec<String>,
    /// The beginnings of the names of the groups that functions of the server aggregate. Only Rust servers set this field; Go skips it.
    #[prost(string, repeated, tag = "1004")]
    pub aggregated_groups: Vec<String>,
}

impl ServerInfo {
    /// Returns whether the server takes tasks from `queue`: its list has the queue or, on a Rust server, a matching pattern
    /// such as `tenant:*`.
    pub fn serves(&self, queue: &QueueName) -> bool {
        // In the name of a Go server's queue `*` has no special meaning.
        let means = |name: &str| if self.is_gos() { name == queue.as_str() } else { matches(name, queue.as_str()) };
        self.queues.iter().filter_map(|served| served.queue.as_deref()).any(means)
    }

    /// Returns how many archived tasks of `queue` the server keeps; beyond that it deletes the oldest. 10,000, unless the
    /// server's program sets another limit; a Go server always has this one.
    pub(crate) fn archive_limit(&self, queue: &QueueName) -> u64 {
        let limit = self.archives.iter().find(|limit| matches(&limit.queue, queue.as_str()));
        limit.map_or(ArchiveLimit::DEFAULT, |limit| limit.tasks)
    }

    /// Returns whether the server says that it aggregates tasks of this type in this group.
    pub(crate) fn aggregates(&self, group: &GroupName, r#type: &str) -> bool {
        self.aggregated_types.iter().any(|known| known == r#type)
            || self.aggregated_groups.iter().any(|beginning| group.as_str().starts_with(beginning.as_str()))
    }

    /// Returns the queues with their weights, the greatest first, and by name where weights are equal.
    #[doc(hidden)]
    pub fn weights(&self) -> Vec<(&str, i32)> {
        let mut weights: Vec<_> = self.queues.iter().map(|served| (served.queue(), served.weight())).collect();
        weights.sort_by_key(|&(name, weight)| (Reverse(weight), name));
        weights
    }

    /// Returns whether the server is a Go program.
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
    /// Most archived tasks of each matching queue.
    #[prost(uint64, tag = "2")]
    pub tasks: u64,
}

impl ArchiveLimit {
    /// How many archived tasks a queue keeps unless a server says otherwise, as in asynq.
    pub(crate) const DEFAULT: u64 = 10_000;
}

/// One entry of [`ServerInfo::queues`]; its fields are `optional` because Go writes empty keys and values, which prost's own `map` would
/// drop.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct QueueWeight {
    /// Queue name.
    #[prost(string, optional, tag = "1")]
    pub queue: Option<String>,
    /// Weight or priority of the queue.
    #[prost(int32, optional, tag = "2")]
    pub weight: Option<i32>,
}

/// One task that a server runs now.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
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
    /// Type of the task.
    #[prost(string, tag = "5")]
    pub task_type: String,
    /// Payload of the task, cut to 1 KiB.
    #[prost(bytes = "bytes", tag = "6")]
    pub task_payload: Bytes,
    /// Queue of the task.
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
    /// A listed run counts as stuck this long after its deadline: a job has 5 s to notice the end of its time, and a server
    /// lists its runs every 5 s.
    const STUCK_AFTER: TimeDelta = TimeDelta::seconds(10);

    /// Returns whether the run outlives its deadline: that of a blocking job whose thread does not return, or of an async one
    /// that blocks its thread. The task, its slot and its lease wait for such a run. `now` is the broker's time.
    pub fn is_stuck(&self, now: DateTime<Utc>) -> bool {
        let deadline = self.deadline.and_then(Timestamp::to_datetime);
        deadline.is_some_and(|deadline| now.signed_duration_since(deadline) > Self::STUCK_AFTER)
    }
}

partial_debug!(WorkerInfo {
    host, pid, server_id, task_id, task_type, task_payload as length, queue, start_time, deadline, ..
});

/// A periodic entry as its scheduler shows it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SchedulerEntry {
    /// Id of the entry; the id of a Rust entry stays the same across restarts.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The schedule as text.
    #[prost(string, tag = "2")]
    pub spec: String,
    /// Type of the entry's tasks.
    #[prost(string, tag = "3")]
    pub task_type: String,
    /// Payload of the entry's tasks.
    #[prost(bytes = "bytes", tag = "4")]
    pub task_payload: Bytes,
    /// Options of the entry's tasks in Go's form. Each must contain `(`, or Go's readers panic.
    #[prost(string, repeated, tag = "5")]
    pub enqueue_options: Vec<String>,
    /// The time of the next tick, [`Timestamp::NEVER`] if there is none.
    #[prost(message, optional, tag = "6")]
    pub next_enqueue_time: Option<Timestamp>,
    /// The time of the last tick, [`Timestamp::NEVER`] if there was none; never absent.
    #[prost(message, optional, tag = "7")]
    pub prev_enqueue_time: Option<Timestamp>,
    /// The task that a tick enqueues, with all facts that Go's options lack; only Rust schedulers set it, and Go skips it.
    #[doc(hidden)]
    #[prost(message, optional, tag = "100")]
    pub task: Option<ListedTask>,
    /// Whether the times of the schedule are those of robfig/cron (`CronSpec::parse_compat`), which its text does not say; only Rust
    /// schedulers set it, and Go skips it.
    #[prost(bool, tag = "101")]
    pub compat: bool,
}

/// The task of a listed entry as a tick enqueues it, without its payload and its id.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListedTask {
    /// The message, encoded.
    #[prost(bytes = "bytes", tag = "1")]
    pub message: Bytes,
    /// The facts that the message cannot carry ([`Extra`](super::Extra)), encoded.
    #[prost(bytes = "bytes", tag = "2")]
    pub extra: Bytes,
    /// Unix milliseconds from which the times of the task count.
    #[prost(int64, tag = "3")]
    pub bound_ms: i64,
    /// Whether the deadline counts from the enqueue.
    #[prost(bool, tag = "4")]
    pub deadline_moves: bool,
    /// Whether the expiry counts from the enqueue.
    #[prost(bool, tag = "5")]
    pub expiry_moves: bool,
    /// Seconds that the unique lock is held at most; 0 = no lock.
    #[prost(uint64, tag = "6")]
    pub lock_seconds: u64,
    /// Milliseconds by which the task is deferred; 0 = not at all.
    #[prost(int64, tag = "7")]
    pub delay_ms: i64,
    /// Unix milliseconds of the moment for which the task is scheduled; 0 = none.
    #[prost(int64, tag = "8")]
    pub at_ms: i64,
}

/// One enqueue of a periodic entry.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SchedulerEnqueueEvent {
    /// Id of the task.
    #[prost(string, tag = "1")]
    pub task_id: String,
    /// When the task was enqueued.
    #[prost(message, optional, tag = "2")]
    pub enqueue_time: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    /// Programs of other versions read these numbers, of which Go's messages have none.
    #[test]
    fn the_numbers_of_our_own_fields_never_change() {
        let task = ListedTask {
            message: Bytes::from_static(b"m"),
            extra: Bytes::from_static(b"x"),
            bound_ms: 3,
            deadline_moves: true,
            expiry_moves: false,
            lock_seconds: 6,
            delay_ms: 7,
            at_ms: 8,
        };
        let entry = SchedulerEntry { task: Some(task), compat: true, ..SchedulerEntry::default() };
        let stored = b"\xa2\x06\x10\x0a\x01m\x12\x01x\x18\x03\x20\x01\x30\x06\x38\x07\x40\x08\xa8\x06\x01";
        assert_eq!(entry.encode_to_vec(), stored);
        let expires = ListedTask { expiry_moves: true, ..ListedTask::default() };
        assert_eq!(expires.encode_to_vec(), b"\x28\x01");

        let info = ServerInfo {
            rust_version: "v".into(),
            clock_ahead_ms: Some(-5),
            archives: vec![ArchiveLimit { queue: "q".into(), tasks: 7 }],
            aggregated_types: vec!["t".into()],
            aggregated_groups: vec!["g".into()],
            ..ServerInfo::default()
        };
        let stored = b"\xc2\x3e\x01v\xc8\x3e\x09\xd2\x3e\x05\x0a\x01q\x10\x07\xda\x3e\x01t\xe2\x3e\x01g";
        assert_eq!(info.encode_to_vec(), stored);
    }

    #[test]
    fn never_is_not_an_instant() {
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
