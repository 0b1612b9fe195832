//! The JSON forms. Times are RFC 3339 in UTC with milliseconds, spans are seconds, and a missing value is null.

use std::time::Duration;

pub(crate) use asynq_runtime::inspector::time;
use asynq_runtime::{
    TaskInfo, TaskState,
    broker::{Failure, GroupStats, Node, QueueStats, ServerState, SlowCall, TaskBrief},
    inspector::Statistics,
};
use serde_json::{Map, Value, json};

use crate::{
    query::{
        broker::Health,
        payload::{self, Reader, Rendered},
        periodic::Entry,
        search::SearchResult,
    },
    sample::{Point, Snapshot},
    state::AppState,
};

/// Most queues of one event.
const MOST_QUEUES: usize = 500;

fn seconds(span: Duration) -> f64 {
    (span.as_secs_f64() * 1000.0).round() / 1000.0
}

/// Returns the numbers of one queue: those of [`Statistics::queue_to_json`], with the latency rounded to milliseconds.
pub(super) fn queue(queue: &QueueStats) -> Value {
    let mut numbers = Statistics::queue_to_json(queue);
    numbers["latency_seconds"] = seconds(queue.latency).into();
    numbers
}

/// Returns the data of an event for one queue, or for all: of more than 500 queues only those with the most waiting and running
/// tasks.
pub(crate) fn samples(snapshot: &Snapshot, only: &str) -> Value {
    let mut chosen: Vec<&QueueStats> = match only {
        "" => snapshot.queues.iter().collect(),
        name => snapshot.queue(name).into_iter().collect(),
    };
    let count = chosen.len();
    if count > MOST_QUEUES {
        chosen.sort_by_key(|queue| std::cmp::Reverse(queue.active + queue.pending + queue.retry));
        chosen.truncate(MOST_QUEUES);
    }
    let left_out = count - chosen.len();
    let queues: Map<String, Value> = chosen.into_iter().map(|stats| (stats.name.to_string(), queue(stats))).collect();
    json!({
        "at": time(snapshot.at),
        "totals": snapshot.totals.to_json(),
        "queues": queues,
        "left_out": left_out,
    })
}

/// Returns the points of a series, column by column, as charts want them.
pub(super) fn series(points: &[Point]) -> Value {
    fn column<T: Into<Value>>(points: &[Point], of: impl Fn(&Point) -> T) -> Value {
        points.iter().map(|point| of(point).into()).collect()
    }
    let mut columns = json!({
        "at_ms": column(points, |p| p.at_ms),
        "processed_per_second": column(points, |p| p.processed),
        "failed_per_second": column(points, |p| p.failed),
        "latency_ms": column(points, |p| p.latency_ms),
    });
    for state in TaskState::ALL {
        columns[state.as_str()] = column(points, |p| p.count(state));
    }
    columns
}

/// Returns one task.
pub(super) async fn task(app: &AppState, task: &TaskInfo) -> Value {
    let payload = payload::of_one(app, &task.r#type, &task.payload).await;
    described(app, task, &payload, task.result.as_deref().map(payload::any).as_ref())
}

/// Returns the tasks of a listing, with the beginning of large values.
pub(super) async fn listed(app: &AppState, tasks: &[TaskBrief]) -> Vec<Value> {
    let reader = Reader::of_tasks(app, tasks).await;
    let one =
        |task: &TaskBrief| described(app, task, &reader.of_listed(task), payload::result_of_listed(task).as_ref());
    tasks.iter().map(one).collect()
}

fn described(app: &AppState, task: &TaskInfo, payload: &Rendered, result: Option<&Rendered>) -> Value {
    let mut value = Statistics::task_to_json(task);
    value["payload"] = json!(payload);
    value["result"] = json!(result);
    value["last_error"] = task.last_error.as_deref().map(|error| payload::error(error).text).into();
    value["is_orphan"] = task.is_orphan(app.client.broker().now()).into();
    value
}

/// Returns one failed attempt.
pub(super) fn failure(failure: &Failure) -> Value {
    json!({ "number": failure.number, "at": time(failure.at), "error": payload::error(&failure.error).text })
}

/// Returns one group.
pub(super) fn group(group: &GroupStats) -> Value {
    json!({ "group": group.group.as_str(), "size": group.size, "oldest": group.oldest.map(time) })
}

/// Returns the result of a search.
pub(super) async fn found(app: &AppState, found: &SearchResult) -> Value {
    json!({
        "looked_at": found.looked_at,
        "next": found.next,
        "incomplete": found.is_incomplete,
        "partly_searched": found.partly_searched,
        "tasks": listed(app, &found.tasks).await,
    })
}

/// Returns the servers with the tasks that they run.
pub(super) async fn servers(app: &AppState, servers: &[ServerState]) -> Vec<Value> {
    let workers = servers.iter().flat_map(|server| &server.workers);
    let reader = Reader::new(app, workers.map(|worker| (&*worker.task_type, &worker.task_payload[..]))).await;
    servers.iter().map(|one| server(app, &reader, one)).collect()
}

fn server(app: &AppState, reader: &Reader<'_>, server: &ServerState) -> Value {
    let now = app.client.broker().now();
    let runs = server.workers.iter().map(|run| {
        let mut value = Statistics::run_to_json(run, now);
        value["payload"] = json!(reader.payload(&run.task_type, &run.task_payload));
        value
    });
    Statistics::server_to_json(&server.info, runs)
}

/// Returns one periodic entry.
pub(super) fn entry(entry: &Entry) -> Value {
    json!({
        "id": entry.listed.id,
        "queue": entry.queue.as_str(),
        "spec": entry.listed.spec,
        "sentence": entry.sentence,
        "type": entry.listed.task_type,
        "payload": entry.payload,
        "options": entry.listed.enqueue_options,
        "previous": entry.previous.map(time),
        "next": entry.next.iter().copied().map(time).collect::<Vec<_>>(),
        "paused": entry.error.is_none().then(|| entry.is_paused()),
        "error": entry.error,
        "can_pause": entry.state.is_some(),
    })
}

/// Returns the health of the broker.
pub(super) fn health(health: &Health) -> Value {
    json!({
        "kind": health.kind,
        "location": health.location,
        "lease_seconds": seconds(health.lease),
        "now": time(health.now),
        "ahead_ms": health.ahead.num_milliseconds(),
        "ping_us": health.pings.iter().map(|ping| u64::try_from(ping.as_micros()).unwrap_or(u64::MAX)).collect::<Vec<_>>(),
        "queues": health.queues,
        "servers": health.servers,
        "entries": health.entries,
    })
}

/// Returns one server or file that keeps tasks. Its facts are in sections, with the broker's own names and texts.
pub(super) fn node(node: &Node) -> Value {
    let mut facts = Map::new();
    for fact in &node.facts {
        let section = facts.entry(fact.section.as_str()).or_insert_with(|| json!({}));
        section[&fact.name] = fact.value.as_str().into();
    }
    let slow_calls = node.slow_calls.as_ref().map(|calls| {
        let call =
            |call: &SlowCall| json!({ "at": time(call.at), "took_ms": seconds(call.took * 1000), "command": call.command });
        calls.iter().map(call).collect::<Vec<_>>()
    });
    json!({
        "address": node.address,
        "version": node.version,
        "ahead_ms": node.ahead.num_milliseconds(),
        "precision_ms": seconds(node.precision * 1000),
        "facts": facts,
        "slow_calls": slow_calls,
    })
}
