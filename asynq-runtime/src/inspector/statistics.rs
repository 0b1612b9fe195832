//! The numbers of queues, running tasks and servers in one value, for a status page, a monitor, or go-workers'
//! statistics, and the JSON forms of a queue, a server and a task, which the command line and the dashboard write as well.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::{InspectError, Inspector, QueueReading};
use crate::{
    broker::{QueueSlot, QueueStats, ServerState},
    task::{QueueName, QueueWeight, ServerInfo, TaskInfo, Timestamp, WorkerInfo},
};

impl Inspector {
    /// Returns the numbers of every queue, the running tasks and the servers as one value; [`Statistics::to_json`]
    /// writes it as JSON.
    ///
    /// The value is not a snapshot: queue after queue is read. It has at most 1,000 queues and 10,000 running tasks, and the
    /// number of those left out; the totals are of all queues.
    ///
    /// # Errors
    ///
    /// The broker failed. A queue that cannot be read is not an error, but an entry of [`Statistics::unreadable`], and a list of servers
    /// that cannot be read is [`Statistics::servers_unreadable`].
    pub async fn statistics(&self) -> Result<Statistics, InspectError> {
        let (queues, unreadable) = UnreadableQueue::part(self.each_queue().await?);
        // In a cluster the list may lie on a node that is away, while the queues are on others.
        let (servers, servers_unreadable) = match self.broker.servers().await {
            Ok(servers) => (servers, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let statistics = Statistics::of(self.broker.location(), self.broker.now(), queues, servers);
        Ok(Statistics { unreadable, servers_unreadable, ..statistics })
    }
}

/// The state of a broker: its queues, running tasks and servers.
///
/// # JSON form
///
/// [`to_json`](Self::to_json) and serde write this form. None of these fields will be renamed or removed; times are RFC
/// 3339 in UTC with milliseconds, or null if they are not known:
///
/// ```json
/// {
///   "broker": "redis://127.0.0.1:6379/0",
///   "at": "2030-01-02T03:04:05.678Z",
///   "totals": {
///     "waiting": 2, "processed_today": 8, "failed_today": 1, "processed_total": 90, "failed_total": 9
///   },
///   "queues": [{
///     "queue": "default", "size": 3, "pending": 1, "active": 1, "scheduled": 0, "retry": 1, "archived": 0,
///     "completed": 0, "aggregating": 0, "processed_today": 8, "failed_today": 1, "processed_total": 90,
///     "failed_total": 9, "latency_seconds": 0.25, "paused": false, "at": "2030-01-02T03:04:05.678Z"
///   }],
///   "running": [{
///     "id": "t1", "type": "email:send", "queue": "default", "since": "2030-01-02T03:04:00.000Z",
///     "deadline": "2030-01-02T03:34:00.000Z", "stuck": false, "server": "4d3c", "host": "web-1", "pid": 42
///   }],
///   "servers": [{
///     "id": "4d3c", "host": "web-1", "pid": 42, "status": "active", "concurrency": 10, "active": 1,
///     "strict_priority": false, "queues": { "default": 3 }, "started_at": "2030-01-02T03:00:00.000Z",
///     "rust_version": "0.1.0", "tasks": [{ "id": "t1", "type": "email:send", "queue": "default" }]
///   }],
///   "queues_left_out": 0,
///   "running_left_out": 0
/// }
/// ```
///
/// `rust_version` is null for a server of a Go program. If queues cannot be read, there is one more field:
/// `"unreadable": [{ "queue": "default", "error": "…" }]`. If the list of servers cannot be read, `running` and `servers` are empty, and
/// `"servers_unreadable": "…"` is the reason.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Statistics {
    /// The address of the tasks: the URL without its password.
    pub broker: String,
    /// The time of these numbers, by the broker's clock.
    pub at: DateTime<Utc>,
    /// All queues together.
    pub totals: QueueTotals,
    /// The queues, by name.
    pub queues: Vec<QueueStats>,
    /// Queues that cannot be read, by name; the totals do not contain them.
    pub unreadable: Vec<UnreadableQueue>,
    /// The running tasks, the longest first. Servers report them every 5 seconds.
    pub running: Vec<RunningTask>,
    /// The servers that run.
    pub servers: Vec<ServerInfo>,
    /// The reason, for display, why the list of servers cannot be read, so that `running` and `servers` are empty.
    pub servers_unreadable: Option<String>,
    /// How many queues are left out.
    pub queues_left_out: usize,
    /// How many running tasks are left out.
    pub running_left_out: usize,
}

/// A queue that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnreadableQueue {
    /// The name of the queue.
    pub name: QueueName,
    /// The reason, for display.
    pub error: String,
}

impl UnreadableQueue {
    /// Makes an entry for a queue that cannot be read, with the reason.
    #[doc(hidden)]
    pub fn new(name: QueueName, error: impl Into<String>) -> Self {
        Self { name, error: error.into() }
    }

    /// Separates the queues that could be read from those that cannot, each in their order.
    #[doc(hidden)]
    pub fn part(readings: impl IntoIterator<Item = QueueReading>) -> (Vec<QueueStats>, Vec<Self>) {
        let (mut queues, mut unreadable) = (Vec::new(), Vec::new());
        for QueueReading { name, stats } in readings {
            match stats {
                Ok(stats) => queues.push(stats),
                Err(error) => unreadable.push(Self::new(name, error.to_string())),
            }
        }
        (queues, unreadable)
    }
}

/// Reads one count of a queue.
#[doc(hidden)]
pub type CountOf = fn(&QueueStats) -> u64;

/// The numbers of all queues together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct QueueTotals {
    /// Tasks that wait for a worker, for their time or in a group; running ones are not among them.
    pub waiting: u64,
    /// Runs that ended today (UTC), failed ones included.
    pub processed_today: u64,
    /// Runs that failed today (UTC).
    pub failed_today: u64,
    /// Runs that ended since the beginning.
    pub processed_total: u64,
    /// Runs that failed since the beginning.
    pub failed_total: u64,
}

/// A task that runs now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RunningTask {
    /// The id of the task.
    pub id: String,
    /// The name of its job.
    pub r#type: String,
    /// The queue of the task.
    pub queue: String,
    /// When the attempt began, by the clock of its server.
    #[serde(serialize_with = "time_or_null")]
    pub since: Option<DateTime<Utc>>,
    /// When the attempt must end.
    #[serde(serialize_with = "time_or_null")]
    pub deadline: Option<DateTime<Utc>>,
    /// Whether the attempt has outlived its deadline, as [`WorkerInfo::is_stuck`](crate::task::WorkerInfo::is_stuck)
    /// says.
    pub stuck: bool,
    /// The id of the server that runs the task; one of [`Statistics::servers`] has it.
    pub server: String,
    /// The host of that server.
    pub host: String,
    /// The process id of that server.
    pub pid: i32,
}

impl Statistics {
    /// Most queues in the value.
    const MOST_QUEUES: usize = 1000;
    /// Most running tasks in the value.
    const MOST_RUNNING: usize = 10_000;

    /// The counts of a queue as tables show them, with their headings; `RUNS TODAY` and `FAILED` are those of today
    /// (UTC).
    #[doc(hidden)]
    pub const QUEUE_COLUMNS: [(&'static str, CountOf); 9] = [
        ("PENDING", |queue| queue.pending),
        ("ACTIVE", |queue| queue.active),
        ("SCHEDULED", |queue| queue.scheduled),
        ("RETRY", |queue| queue.retry),
        ("ARCHIVED", |queue| queue.archived),
        ("COMPLETED", |queue| queue.completed),
        ("GROUPED", |queue| queue.aggregating),
        ("RUNS TODAY", |queue| queue.processed),
        ("FAILED", |queue| queue.failed),
    ];

    /// Combines the values that were read.
    pub(crate) fn of(broker: String, at: DateTime<Utc>, mut queues: Vec<QueueStats>, states: Vec<ServerState>) -> Self {
        let mut totals = QueueTotals::default();
        // Saturating, because another program may have written any counter.
        let add = |total: &mut u64, more: u64| *total = total.saturating_add(more);
        for queue in &queues {
            totals.waiting += queue.pending + queue.scheduled + queue.retry + queue.aggregating;
            add(&mut totals.processed_today, queue.processed);
            add(&mut totals.failed_today, queue.failed);
            add(&mut totals.processed_total, queue.processed_total);
            add(&mut totals.failed_total, queue.failed_total);
        }
        let queues_left_out = queues.len().saturating_sub(Self::MOST_QUEUES);
        queues.truncate(Self::MOST_QUEUES);
        let (mut running, mut servers) = (Vec::new(), Vec::with_capacity(states.len()));
        for ServerState { info, workers, .. } in states {
            running.extend(workers.into_iter().map(|worker| RunningTask {
                stuck: worker.is_stuck(at),
                id: worker.task_id,
                r#type: worker.task_type,
                queue: worker.queue,
                since: worker.start_time.and_then(Timestamp::to_datetime),
                deadline: worker.deadline.and_then(Timestamp::to_datetime),
                server: info.server_id.clone(),
                host: info.host.clone(),
                pid: info.pid,
            }));
            servers.push(info);
        }
        running.sort_by(|a, b| (a.since, &a.queue, &a.id).cmp(&(b.since, &b.queue, &b.id)));
        let running_left_out = running.len().saturating_sub(Self::MOST_RUNNING);
        running.truncate(Self::MOST_RUNNING);
        Self {
            broker,
            at,
            totals,
            queues,
            unreadable: Vec::new(),
            running,
            servers,
            servers_unreadable: None,
            queues_left_out,
            running_left_out,
        }
    }

    /// Returns one queue in the JSON form, for a program that reports a single one.
    #[doc(hidden)]
    pub fn queue_to_json(queue: &QueueStats) -> Value {
        json!({
            "queue": queue.name.as_str(),
            "size": queue.size,
            "pending": queue.pending,
            "active": queue.active,
            "scheduled": queue.scheduled,
            "retry": queue.retry,
            "archived": queue.archived,
            "completed": queue.completed,
            "aggregating": queue.aggregating,
            "processed_today": queue.processed,
            "failed_today": queue.failed,
            "processed_total": queue.processed_total,
            "failed_total": queue.failed_total,
            "latency_seconds": queue.latency.as_secs_f64(),
            "paused": queue.paused,
            "at": time(queue.timestamp),
        })
    }

    /// Returns the place of a queue in a cluster as JSON.
    #[doc(hidden)]
    pub fn slot_to_json(slot: &QueueSlot) -> Value {
        json!({ "queue": slot.queue.as_str(), "slot": slot.slot, "nodes": slot.nodes })
    }

    /// Returns one server in the JSON form, with `tasks` as those that it runs, for a program that reports servers alone.
    #[doc(hidden)]
    pub fn server_to_json(info: &ServerInfo, tasks: impl IntoIterator<Item = Value>) -> Value {
        let weight = |served: &QueueWeight| (served.queue().to_owned(), json!(served.weight()));
        json!({
            "id": info.server_id,
            "host": info.host,
            "pid": info.pid,
            "status": info.status,
            "concurrency": info.concurrency,
            "active": info.active_worker_count,
            "strict_priority": info.strict_priority,
            "queues": info.queues.iter().map(weight).collect::<Map<_, _>>(),
            "started_at": info.start_time.and_then(Timestamp::to_datetime).map(time),
            "rust_version": (!info.rust_version.is_empty()).then_some(&info.rust_version),
            "tasks": tasks.into_iter().collect::<Vec<_>>(),
        })
    }

    /// Returns one run of a server at the broker's time `now`, for a program that reports servers alone.
    #[doc(hidden)]
    pub fn run_to_json(run: &WorkerInfo, now: DateTime<Utc>) -> Value {
        let at = |at: Option<Timestamp>| at.and_then(Timestamp::to_datetime).map(time);
        json!({
            "id": run.task_id,
            "type": run.task_type,
            "queue": run.queue,
            "since": at(run.start_time),
            "deadline": at(run.deadline),
            "stuck": run.is_stuck(now),
        })
    }

    /// Returns one task in the JSON form, without the fields whose form each program chooses: `payload` and `result`, and whether the
    /// task is an orphan, which is `orphan` of `asynq` and `is_orphan` of the dashboard. The dashboard cuts a long `last_error`.
    #[doc(hidden)]
    pub fn task_to_json(task: &TaskInfo) -> Value {
        let header = |(key, value): &(String, String)| json!({ "key": key, "value": value });
        json!({
            "id": task.id.as_str(),
            "queue": task.queue.as_str(),
            "type": task.r#type,
            "state": task.state.as_str(),
            "ending": task.ending.as_str(),
            "retried": task.retried,
            "max_retry": task.max_retry,
            "crashes": task.crashes,
            "last_error": task.last_error,
            "last_failed_at": task.last_failed_at.map(time),
            "next_process_at": task.next_process_at.map(time),
            "timeout_seconds": task.timeout.map(|span| span.as_secs_f64()),
            "deadline": task.deadline.map(time),
            "expires": task.expires.map(time),
            "lease_until": task.lease_until.map(time),
            "progress": task.progress.as_ref().map(|p| json!({ "fraction": p.fraction, "note": p.note })),
            "completed_at": task.completed_at.map(time),
            "archived_at": task.archived_at.map(time),
            "retention_seconds": task.retention.map(|span| span.as_secs_f64()),
            "unique_key": task.unique_key,
            "group": task.group,
            "headers": task.headers.iter().map(header).collect::<Vec<_>>(),
        })
    }

    /// Returns the JSON form in the documentation of the type.
    pub fn to_json(&self) -> Value {
        let server = |info: &ServerInfo| {
            let tasks = self.running.iter().filter(|task| task.server == info.server_id);
            let task = |task: &RunningTask| json!({ "id": task.id, "type": task.r#type, "queue": task.queue });
            Self::server_to_json(info, tasks.map(task))
        };
        let mut value = json!({
            "broker": self.broker,
            "at": time(self.at),
            "totals": self.totals,
            "queues": self.queues.iter().map(Self::queue_to_json).collect::<Vec<_>>(),
            "running": self.running,
            "servers": self.servers.iter().map(server).collect::<Vec<_>>(),
            "queues_left_out": self.queues_left_out,
            "running_left_out": self.running_left_out,
        });
        if !self.unreadable.is_empty() {
            let to_json_row = |queue: &UnreadableQueue| json!({ "queue": queue.name.as_str(), "error": queue.error });
            value["unreadable"] = self.unreadable.iter().map(to_json_row).collect();
        }
        if let Some(reason) = &self.servers_unreadable {
            value["servers_unreadable"] = json!(reason);
        }
        value
    }
}

impl Serialize for Statistics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

fn time_or_null<S: Serializer>(at: &Option<DateTime<Utc>>, serializer: S) -> Result<S::Ok, S::Error> {
    at.map(time).serialize(serializer)
}

/// Formats a time as the JSON forms of this project have it: RFC 3339 in UTC with milliseconds.
#[doc(hidden)]
pub fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(second: i64, ms: u32) -> DateTime<Utc> {
        DateTime::from_timestamp(1_893_553_440 + second, ms * 1_000_000).unwrap()
    }

    fn statistics() -> Statistics {
        let mut queue = QueueStats::empty(QueueName::from_wire("default"), at(5, 678));
        (queue.size, queue.pending, queue.active, queue.retry) = (3, 1, 1, 1);
        (queue.processed, queue.failed, queue.processed_total, queue.failed_total) = (8, 1, 90, 9);
        queue.latency = Duration::from_millis(250);
        let info = ServerInfo {
            host: "web-1".into(),
            pid: 42,
            server_id: "4d3c".into(),
            concurrency: 10,
            queues: vec![QueueWeight { queue: Some("default".into()), weight: Some(3) }],
            status: "active".into(),
            start_time: Some(at(-240, 0).into()),
            active_worker_count: 1,
            rust_version: "0.1.0".into(),
            ..ServerInfo::default()
        };
        let worker = WorkerInfo {
            task_id: "t1".into(),
            task_type: "email:send".into(),
            queue: "default".into(),
            start_time: Some(at(0, 0).into()),
            deadline: Some(at(1800, 0).into()),
            ..WorkerInfo::default()
        };
        let states = vec![ServerState::new(info, vec![worker])];
        Statistics::of("redis://127.0.0.1:6379/0".into(), at(5, 678), vec![queue], states)
    }

    #[test]
    fn counters_that_another_program_wrote_are_added_up_to_the_largest_number() {
        let mut queue = QueueStats::empty(QueueName::from_wire("default"), at(0, 0));
        (queue.processed, queue.failed, queue.processed_total, queue.failed_total) =
            (u64::MAX, u64::MAX, u64::MAX, u64::MAX);
        let totals =
            Statistics::of("redis://localhost".into(), at(0, 0), vec![queue.clone(), queue], Vec::new()).totals;
        assert_eq!([totals.processed_today, totals.failed_today], [u64::MAX; 2]);
        assert_eq!([totals.processed_total, totals.failed_total], [u64::MAX; 2]);
    }

    /// The block in the documentation of the type.
    fn documented() -> Value {
        let source = include_str!("statistics.rs");
        let block = source.split("/// ```json\n").nth(1).unwrap().split("/// ```\n").next().unwrap();
        let json: String = block.lines().map(|line| line.trim_start_matches("///")).collect();
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn json_is_as_documented() {
        assert_eq!(statistics().to_json(), documented());
        assert_eq!(serde_json::to_value(statistics()).unwrap(), documented());
    }

    #[test]
    fn an_unset_value_is_null() {
        let states = vec![ServerState::new(ServerInfo::default(), vec![WorkerInfo::default()])];
        let json = Statistics::of(String::new(), at(0, 0), Vec::new(), states).to_json();
        assert_eq!(
            (&json["running"][0]["since"], &json["running"][0]["deadline"], &json["servers"][0]["started_at"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
        assert_eq!(json["servers"][0]["rust_version"], Value::Null);
    }

    #[test]
    fn omitted_runs_are_counted_and_the_longest_runs_stay() {
        let worker =
            |n: i64| WorkerInfo { task_id: n.to_string(), start_time: Some(at(-n, 0).into()), ..WorkerInfo::default() };
        let workers = (1..=10_002).map(worker).collect();
        let states = vec![ServerState::new(ServerInfo::default(), workers)];
        let statistics = Statistics::of(String::new(), at(0, 0), Vec::new(), states);
        assert_eq!((statistics.running.len(), statistics.running_left_out), (10_000, 2));
        assert_eq!((&*statistics.running[0].id, &*statistics.running[9_999].id), ("10002", "3"));
    }
}
