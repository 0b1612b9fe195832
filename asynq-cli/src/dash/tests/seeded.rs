//! A broker with something of everything, at an instant that never passes.

use std::time::Duration;

use asynq_runtime::{
    Client,
    broker::ServerName,
    task::{QueueWeight, SchedulerEntry, ServerInfo, Timestamp, WorkerInfo},
};
use asynq_tests::{Build as _, Fixture, SqliteStore, archive, complete, retry, task};
use chrono::TimeDelta;

const HOUR: Duration = Duration::from_secs(3600);

/// Fills a broker, and returns a client of it; the fixture keeps its file.
pub(super) async fn seeded() -> (Fixture<SqliteStore>, Client) {
    let t = Fixture::<SqliteStore>::start().await;
    for (n, id) in ["order-10", "order-11", "order-12"].into_iter().enumerate() {
        t.enqueue(
            typed(id, "charge_card", &format!("{{\"order\":{},\"cents\":{}}}", 10 + n, 1_250 * (n + 1)))
                .in_queue("critical"),
        )
        .await;
    }
    t.enqueue(task("done").with_retention(86_400)).await;
    let run = t.take_one().await;
    t.settle(&run, complete("{\"id\":\"250 ok\"}")).await;
    t.enqueue(task("archived")).await;
    let run = t.take_one().await;
    t.settle(&run, archive("550 no such user")).await;
    t.enqueue(typed("retry", "send_email", "{\"to\":\"ann@example.com\",\"subject\":\"Hello\"}")).await;
    let run = t.take_one().await;
    t.settle(&run, retry(Duration::from_secs(95), "421 try again later")).await;
    t.seed_scheduled("scheduled", HOUR).await;
    t.enqueue(typed("active", "send_email", "{\"to\":\"bob@example.com\",\"subject\":\"Welcome\"}")).await;
    let active = t.take_one().await;
    for n in 1..=4 {
        let to = format!("{{\"to\":\"reader-{n}@example.com\",\"subject\":\"News\"}}");
        t.enqueue(typed(&format!("pending-{n}"), "send_email", &to)).await;
        t.advance(Duration::from_secs(7));
    }
    for n in 1..=3 {
        t.enqueue(typed(&format!("report-{n}"), "report", "{}").in_queue("low")).await;
    }
    t.broker().pause(&asynq_tests::queue("low")).await.unwrap();
    server(&t, active.key.id.as_str()).await;
    entries(&t).await;
    let client = Client::new(t.shared());
    (t, client)
}

fn typed(id: &str, r#type: &str, payload: &str) -> asynq_runtime::broker::NewTask {
    let mut task = task(id).with_payload(payload.to_owned());
    task.message.r#type = r#type.into();
    task
}

async fn server(t: &Fixture<SqliteStore>, active: &str) {
    let broker = t.broker();
    let name =
        ServerName { host: "mail-1".into(), pid: 4711, server_id: "6ba7b810-9dad-4bd1-80b4-00c04fd430c8".into() };
    let started = Timestamp::from(t.now() - TimeDelta::hours(26));
    let weight = |queue: &str, weight| QueueWeight { queue: Some(queue.into()), weight: Some(weight) };
    let info = ServerInfo {
        host: name.host.clone(),
        pid: 4711,
        server_id: name.server_id.clone(),
        concurrency: 10,
        queues: vec![weight("critical", 6), weight("default", 3), weight("low", 1)],
        status: "active".into(),
        start_time: Some(started),
        active_worker_count: 1,
        rust_version: "0.1.0".into(),
        ..ServerInfo::default()
    };
    let member = broker.join(&name, &info).await.unwrap();
    let worker = WorkerInfo {
        host: name.host.clone(),
        pid: 4711,
        server_id: name.server_id.clone(),
        task_id: active.to_owned(),
        task_type: "send_email".into(),
        task_payload: "{\"to\":\"bob@example.com\",\"subject\":\"Welcome\"}".into(),
        queue: "default".into(),
        start_time: Some((t.now() - TimeDelta::seconds(3)).into()),
        deadline: Some((t.now() + TimeDelta::minutes(3)).into()),
    };
    broker.beat(&member, &info, &[worker]).await.unwrap();
}

async fn entries(t: &Fixture<SqliteStore>) {
    let entry = |id: &str, spec: &str, r#type: &str, next: i64, previous: Option<i64>| SchedulerEntry {
        id: id.into(),
        spec: spec.into(),
        task_type: r#type.into(),
        task_payload: "{}".into(),
        enqueue_options: vec!["Queue(\"low\")".into()],
        next_enqueue_time: Some((t.now() + TimeDelta::seconds(next)).into()),
        prev_enqueue_time: Some(previous.map_or(Timestamp::NEVER, |ago| (t.now() - TimeDelta::seconds(ago)).into())),
        ..SchedulerEntry::default()
    };
    let all = [
        entry("c0f5a1de-0000-5000-8000-000000000001", "*/5 * * * *", "cleanup", 107, Some(193)),
        entry("c0f5a1de-0000-5000-8000-000000000002", "TZ=Europe/Berlin 0 9 * * 1-5", "report", 20_000, None),
    ];
    t.broker().show_entries("mail-1:4711:scheduler", &all, Duration::from_secs(60)).await.unwrap();
}
