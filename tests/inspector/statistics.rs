//! The statistics of all queues and servers, as one value.

use std::time::Duration;

use asynq_runtime::{
    Inspector,
    broker::ServerName,
    task::{QueueWeight, ServerInfo, WorkerInfo},
};
use asynq_tests::{Build as _, PINNED, task};
use serde_json::{Value, json};

use super::Fixture;

/// Shows a server that has been running one task since its start.
async fn working(t: &Fixture) {
    let name = ServerName { host: "web-1".into(), pid: 42, server_id: "4d3c".into() };
    let info = ServerInfo {
        host: "web-1".into(),
        pid: 42,
        server_id: "4d3c".into(),
        concurrency: 10,
        queues: vec![QueueWeight { queue: Some("default".into()), weight: Some(3) }],
        status: "active".into(),
        start_time: Some(PINNED.into()),
        active_worker_count: 1,
        ..ServerInfo::default()
    };
    let worker = WorkerInfo {
        host: "web-1".into(),
        pid: 42,
        server_id: "4d3c".into(),
        task_id: "active".into(),
        task_type: "email:send".into(),
        queue: "default".into(),
        start_time: Some(PINNED.into()),
        ..WorkerInfo::default()
    };
    let member = t.broker().join(&name, &info).await.unwrap();
    t.broker().beat(&member, &info, &[worker]).await.unwrap();
}

#[tokio::test]
async fn one_call_returns_queues_runs_and_servers() {
    let t = Fixture::start().await;
    t.broker().leave(t.member()).await.unwrap();
    let inspector = Inspector::new(t.shared());
    t.seed_every_state().await;
    t.enqueue(task("t1").in_queue("low")).await;
    working(&t).await;
    t.advance(Duration::from_secs(2));

    let statistics = inspector.statistics().await.unwrap();
    assert_eq!(statistics.queues, inspector.queues().await.unwrap());
    let totals = statistics.totals;
    assert_eq!((totals.waiting, totals.processed_today, totals.failed_today), (4, 3, 2));
    assert_eq!((totals.processed_total, totals.failed_total), (3, 2));
    let [running] = &statistics.running[..] else { panic!("{:?}", statistics.running) };
    assert_eq!((running.id.as_str(), running.r#type.as_str(), running.since), ("active", "email:send", Some(PINNED)));
    assert_eq!((running.server.as_str(), running.host.as_str(), running.pid), ("4d3c", "web-1", 42));
    assert_eq!(statistics.servers.iter().map(|s| s.server_id.as_str()).collect::<Vec<_>>(), ["4d3c"]);
    assert_eq!(statistics.broker, t.broker().location());
}

#[tokio::test]
async fn json_is_the_same_on_every_broker() {
    let t = Fixture::start().await;
    t.broker().leave(t.member()).await.unwrap();
    t.seed_archived("a").await;
    t.seed_pending(&["p"]).await;
    working(&t).await;
    t.advance(Duration::from_millis(1_500));
    let statistics = Inspector::new(t.shared()).statistics().await.unwrap();
    let mut json = statistics.to_json();
    assert_eq!(serde_json::to_value(&statistics).unwrap(), json);
    assert_eq!(json["broker"].take(), Value::from(t.broker().location()));
    let latency = json["queues"][0]["latency_seconds"].take();
    assert!((1.4..1.6).contains(&latency.as_f64().unwrap()), "{latency}");
    assert_eq!(
        json,
        json!({
            "broker": null,
            "at": "2030-01-02T03:04:07.178Z",
            "totals": {
                "waiting": 1, "processed_today": 1, "failed_today": 1, "processed_total": 1, "failed_total": 1,
            },
            "queues": [{
                "queue": "default", "size": 2, "pending": 1, "active": 0, "scheduled": 0, "retry": 0, "archived": 1,
                "completed": 0, "aggregating": 0, "processed_today": 1, "failed_today": 1, "processed_total": 1,
                "failed_total": 1, "latency_seconds": null, "paused": false, "at": "2030-01-02T03:04:07.178Z",
            }],
            "running": [{
                "id": "active", "type": "email:send", "queue": "default", "since": "2030-01-02T03:04:05.678Z",
                "deadline": null, "stuck": false, "server": "4d3c", "host": "web-1", "pid": 42,
            }],
            "servers": [{
                "id": "4d3c", "host": "web-1", "pid": 42, "status": "active", "concurrency": 10, "active": 1,
                "strict_priority": false, "queues": { "default": 3 }, "started_at": "2030-01-02T03:04:05.678Z",
                "rust_version": json["servers"][0]["rust_version"],
                "tasks": [{ "id": "active", "type": "email:send", "queue": "default" }],
            }],
            "queues_left_out": 0,
            "running_left_out": 0,
        })
    );
}

#[tokio::test]
async fn an_empty_broker_has_empty_statistics() {
    let t = Fixture::start().await;
    t.broker().leave(t.member()).await.unwrap();
    let statistics = Inspector::new(t.shared()).statistics().await.unwrap();
    assert!(statistics.queues.is_empty() && statistics.running.is_empty() && statistics.servers.is_empty());
    assert_eq!(statistics.totals, Default::default());
    assert_eq!(Inspector::new(t.shared()).servers().await.unwrap(), []);
}
