//! `stats`: the tasks of every queue by state, and who works.

use std::time::Duration;

use asynq_grammar::duration;
use chrono::SecondsFormat;
use serde_json::{Value, json};

use super::{
    super::{env::Settings, table::Table},
    AppError, client, print, print_json,
};
use crate::broker::{QueueStats, ServerState};

pub(in super::super) async fn stats(settings: Settings, as_json: bool) -> Result<(), AppError> {
    let client = client(settings).await?;
    let broker = client.broker();
    let mut queues = Vec::new();
    for queue in broker.queues().await? {
        queues.push(broker.queue_stats(&queue).await?);
    }
    let servers = broker.servers().await?;
    if as_json {
        print_json(&to_json(&broker.location(), &queues, &servers))
    } else {
        print(to_text(&broker.location(), &queues, &servers))
    }
}

fn to_text(location: &str, queues: &[QueueStats], servers: &[ServerState]) -> String {
    let mut text = format!("{location}\n\n");
    if queues.is_empty() {
        text.push_str("no queues yet: nothing was ever enqueued here\n");
    } else {
        text.push_str(&queue_table(queues).to_string());
    }
    text.push('\n');
    if servers.is_empty() {
        text.push_str("no worker is running\n");
    } else {
        text.push_str(&server_table(servers).to_string());
    }
    text
}

fn queue_table(queues: &[QueueStats]) -> Table {
    let headings = [
        "QUEUE",
        "PENDING",
        "ACTIVE",
        "SCHEDULED",
        "RETRY",
        "ARCHIVED",
        "COMPLETED",
        "DONE TODAY",
        "FAILED TODAY",
        "WAITING",
        "",
    ];
    let mut table = Table::new(&headings).right(1..=9);
    for q in queues {
        let counts = [q.pending, q.active, q.scheduled, q.retry, q.archived, q.completed, q.processed, q.failed];
        let waiting = if q.pending == 0 { "-".to_owned() } else { about(q.latency) };
        let paused = if q.paused { "paused" } else { "" };
        let cells = [q.queue.to_string()].into_iter().chain(counts.map(|n| n.to_string()));
        table.row(cells.chain([waiting, paused.to_owned()]));
    }
    table
}

fn server_table(servers: &[ServerState]) -> Table {
    let mut table = Table::new(&["WORKER", "STATUS", "BUSY", "QUEUES"]).right([2]);
    for ServerState { info, .. } in servers {
        let queues = info
            .queues
            .iter()
            .map(|q| format!("{}={}", q.queue.as_deref().unwrap_or_default(), q.weight.unwrap_or_default()));
        table.row([
            format!("{}:{}", info.host, info.pid),
            info.status.clone(),
            format!("{}/{}", info.active_worker_count, info.concurrency),
            queues.collect::<Vec<_>>().join(" "),
        ]);
    }
    table
}

/// A span for people: no more than three digits matter.
fn about(span: Duration) -> String {
    match span {
        span if span < Duration::from_secs(1) => duration::format(span),
        span => duration::format(Duration::from_secs(span.as_secs())),
    }
}

fn to_json(location: &str, queues: &[QueueStats], servers: &[ServerState]) -> Value {
    let queues = queues.iter().map(|q| {
        json!({
            "queue": q.queue.as_str(),
            "size": q.size,
            "pending": q.pending,
            "active": q.active,
            "scheduled": q.scheduled,
            "retry": q.retry,
            "archived": q.archived,
            "completed": q.completed,
            "aggregating": q.aggregating,
            "processed_today": q.processed,
            "failed_today": q.failed,
            "processed_total": q.processed_total,
            "failed_total": q.failed_total,
            "latency_seconds": q.latency.as_secs_f64(),
            "paused": q.paused,
            "at": q.timestamp.to_rfc3339_opts(SecondsFormat::Millis, true),
        })
    });
    let servers = servers.iter().map(|ServerState { info, workers }| {
        let started = info.start_time.and_then(|at| at.to_datetime());
        let queues =
            info.queues.iter().map(|q| (q.queue.clone().unwrap_or_default(), json!(q.weight.unwrap_or_default())));
        let running = workers.iter().map(|w| json!({ "id": w.task_id, "type": w.task_type, "queue": w.queue }));
        json!({
            "host": info.host,
            "pid": info.pid,
            "id": info.server_id,
            "status": info.status,
            "concurrency": info.concurrency,
            "active": info.active_worker_count,
            "strict_priority": info.strict_priority,
            "queues": queues.collect::<serde_json::Map<_, _>>(),
            "started_at": started.map(|at| at.to_rfc3339_opts(SecondsFormat::Millis, true)),
            "tasks": running.collect::<Vec<_>>(),
        })
    });
    json!({ "broker": location, "queues": queues.collect::<Vec<_>>(), "servers": servers.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::task::{QueueName, QueueWeight, ServerInfo, WorkerInfo};

    fn queues() -> Vec<QueueStats> {
        let at = DateTime::from_timestamp(1_893_553_445, 0).unwrap();
        let mut low = QueueStats::empty(QueueName::new("low").unwrap(), at);
        low.paused = true;
        let mut default = QueueStats::empty(QueueName::new("default").unwrap(), at);
        (default.size, default.pending, default.archived) = (1234, 1200, 34);
        (default.processed, default.failed, default.latency) = (99, 5, Duration::from_millis(61_999));
        vec![default, low]
    }

    fn servers() -> Vec<ServerState> {
        let info = ServerInfo {
            host: "web-1".into(),
            pid: 42,
            server_id: "abc".into(),
            concurrency: 10,
            queues: vec![QueueWeight { queue: Some("default".into()), weight: Some(3) }],
            status: "active".into(),
            active_worker_count: 1,
            ..ServerInfo::default()
        };
        let workers = vec![WorkerInfo { task_id: "t1".into(), task_type: "mail".into(), ..WorkerInfo::default() }];
        vec![ServerState { info, workers }]
    }

    #[test]
    fn the_table_reads_at_a_glance() {
        let text = to_text("sqlite://asynq.db", &queues(), &servers());
        assert_eq!(
            text,
            "sqlite://asynq.db\n\
             \n\
             QUEUE    PENDING  ACTIVE  SCHEDULED  RETRY  ARCHIVED  COMPLETED  DONE TODAY  FAILED TODAY  WAITING\n\
             default     1200       0          0      0        34          0          99             5     1m1s\n\
             low            0       0          0      0         0          0           0             0        -  paused\n\
             \n\
             WORKER    STATUS  BUSY  QUEUES\n\
             web-1:42  active  1/10  default=3\n"
        );
        let nothing = to_text("sqlite://asynq.db", &[], &[]);
        assert!(nothing.contains("no queues yet") && nothing.contains("no worker is running"), "{nothing}");
    }

    #[test]
    fn json_has_the_documented_fields() {
        let json = to_json("sqlite://asynq.db", &queues(), &servers());
        assert_eq!(json["broker"], "sqlite://asynq.db");
        assert_eq!(
            (&json["queues"][0]["pending"], &json["queues"][0]["latency_seconds"]),
            (&json!(1200), &json!(61.999))
        );
        assert_eq!(json["queues"][1]["paused"], true);
        assert_eq!(json["servers"][0]["queues"]["default"], 3);
        assert_eq!(json["servers"][0]["tasks"][0]["type"], "mail");
    }
}
