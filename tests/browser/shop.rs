//! A shop's queues with tasks in every state, as on a working day.

use std::time::Duration;

use asynq_runtime::{
    broker::{Broker, BrokerError, EntryId, EntryPlan, Member, NewTask, Run, Settled, Wanted},
    task::{QueueWeight, SchedulerEnqueueEvent, SchedulerEntry, ServerInfo, Timestamp, WorkerInfo},
};
use asynq_tests::{Build as _, Fixture, Seeded as _, Store, archive, complete, done, queue, retry, task};
use serde_json::json;
use tokio::task::JoinHandle;

/// The queues with their weights and their load.
const QUEUES: [(&str, i32, usize); 6] = [
    ("critical", 6, 14),
    ("mail", 3, 60),
    ("images", 2, 25),
    ("reports", 1, 9),
    ("webhooks", 2, 40),
    ("search-index", 1, 18),
];

/// A task of a job of the shop.
fn order(queue: &str, n: usize) -> NewTask {
    let (kind, payload) = match n % 4 {
        0 => (
            "email:send",
            json!({ "to": format!("customer-{n}@example.com"), "template": "order-shipped", "order": 48_000 + n }),
        ),
        1 => (
            "image:resize",
            json!({ "path": format!("s3://uploads/2030/{n}.jpg"), "sizes": [320, 640, 1280], "keep": true }),
        ),
        2 => (
            "webhook:deliver",
            json!({ "url": "https://shop.example/hooks/orders", "event": "order.paid", "attempt_of": n }),
        ),
        _ => {
            ("report:monthly", json!({ "tenant": format!("tenant-{}", n % 7), "month": "2030-01", "currency": "EUR" }))
        }
    };
    let mut new = task(&uuid(queue, n)).in_queue(queue).with_payload(payload.to_string());
    new.message.r#type = kind.into();
    new.with_header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        .with_header("tenant", "acme")
}

/// An id in the form of asynq's own: a UUID v7 of one millisecond, unique by queue and number.
pub(crate) fn uuid(queue: &str, n: usize) -> String {
    let queue = QUEUES.iter().position(|(name, ..)| *name == queue).unwrap_or(9);
    // 2026-01-01, and a second later for each task.
    let ms = 1_767_225_600_000_u64 + 1000 * n as u64;
    format!("{:08x}-{:04x}-7{queue:03x}-8000-{n:012x}", ms >> 16, ms & 0xffff)
}

/// Fills a store. Returns the runs that are still active.
pub(crate) async fn open<S: Store>(fixture: &Fixture<S>) -> Vec<Run> {
    let broker = fixture.broker();
    let mut active = Vec::new();
    for (name, _, size) in QUEUES {
        let take = |n| async move { take(fixture, name, n).await };
        enqueue(broker, (0..size).map(|n| order(name, n).with_retention(86_400))).await;
        let end = |(n, run): (usize, &Run)| {
            let error = "connection refused (os error 111)\n  while sending to smtp://mail.example:587\n  in shop::mail::send, attempt of 30 s";
            let end = match n % 10 {
                0 => archive(error),
                1 => retry(Duration::from_secs(90 * n as u64 + 30), error),
                2..=5 => complete(r#"{"message_id":"<4bf92f@mail.example>","accepted":true}"#),
                _ => done(),
            };
            run.ends_with(end)
        };
        let ends: Vec<_> = take(size).await.iter().enumerate().map(end).collect();
        for answer in broker.settle(&ends).await {
            assert_eq!(answer.unwrap(), Settled::Ok);
        }
        let later = |n| order(name, n).after(Duration::from_secs(600 + 60 * n as u64));
        enqueue(broker, (100..100 + size / 5).map(later)).await;
        enqueue(broker, (200..200 + (size / 12).max(1)).map(|n| order(name, n))).await;
        active.extend(take(size).await);
        enqueue(broker, (300..300 + size / 4).map(|n| order(name, n))).await;
    }
    let grouped = |n| order("mail", n).grouped(if n % 3 == 0 { "newsletter" } else { "digest:weekly" });
    enqueue(broker, (400..412).map(grouped)).await;
    broker.pause(&queue("reports")).await.unwrap();
    work(broker, fixture.member(), &active).await.unwrap();
    plan(broker).await;
    active
}

/// Enqueues tasks in one call, all of which must be accepted.
pub(crate) async fn enqueue(broker: &dyn Broker, tasks: impl Iterator<Item = NewTask>) {
    for answer in broker.enqueue(tasks.collect()).await {
        answer.unwrap();
    }
}

async fn take<S: Store>(fixture: &Fixture<S>, name: &str, n: usize) -> Vec<Run> {
    fixture.broker().dequeue(fixture.member(), &[Wanted { queue: queue(name), n }]).await.unwrap()
}

/// Beats for the server and extends the leases until the task is aborted.
pub(crate) fn keep_working<S: Store>(fixture: &Fixture<S>, active: &[Run]) -> JoinHandle<()> {
    let (broker, member, active) = (fixture.shared(), fixture.member().clone(), active.to_vec());
    let runs: Vec<_> = active.iter().map(|run| run.key.clone()).collect();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(2)).await;
            // A busy machine may answer late; the next beat follows soon.
            let _ = work(&*broker, &member, &active).await;
            let _ = broker.extend(&runs).await;
        }
    })
}

/// Records a server that runs these tasks.
async fn work(broker: &dyn Broker, member: &Member, active: &[Run]) -> Result<(), BrokerError> {
    let now = broker.now();
    let name = &member.name;
    let queues = QUEUES.map(|(queue, weight, _)| QueueWeight { queue: Some(queue.into()), weight: Some(weight) });
    let info = ServerInfo {
        host: name.host.clone(),
        pid: i32::try_from(name.pid).unwrap(),
        server_id: name.server_id.clone(),
        concurrency: 24,
        queues: queues.to_vec(),
        status: "active".into(),
        start_time: Some((now - chrono::TimeDelta::hours(5)).into()),
        active_worker_count: i32::try_from(active.len()).unwrap(),
        rust_version: "0.1.0".into(),
        ..ServerInfo::default()
    };
    let workers: Vec<WorkerInfo> = active.iter().map(|run| worker(&info, run, now)).collect();
    broker.beat(member, &info, &workers).await
}

fn worker(info: &ServerInfo, run: &Run, now: chrono::DateTime<chrono::Utc>) -> WorkerInfo {
    WorkerInfo {
        host: info.host.clone(),
        pid: info.pid,
        server_id: info.server_id.clone(),
        task_id: run.key.id.to_string(),
        task_type: run.text().r#type.clone(),
        task_payload: run.text().payload.clone(),
        queue: run.key.queue.to_string(),
        start_time: Some((now - chrono::TimeDelta::seconds(7)).into()),
        deadline: Some((now + chrono::TimeDelta::minutes(30)).into()),
    }
}

/// The id of the entry that the shop's own scheduler plans for a type.
pub(crate) fn entry_id(kind: &str) -> EntryId {
    EntryId::of(kind, "")
}

/// Records periodic entries: two of ours, one of Go's.
async fn plan(broker: &dyn Broker) {
    let now = broker.now();
    let mut entries = Vec::new();
    for (kind, spec) in [("report:nightly", "0 3 * * *"), ("cleanup:carts", "*/15 * * * *")] {
        let entry = entry_id(kind);
        let plan = EntryPlan {
            queue: queue("reports"),
            entry: entry.clone(),
            spec: spec.into(),
            zone: "UTC".into(),
            revision: 1,
            supersedes: None,
            keep: Duration::from_secs(86_400),
        };
        broker.plan_entry(&plan).await.unwrap();
        for n in (1..6).rev() {
            let at = now - chrono::TimeDelta::minutes(15 * n);
            let event = SchedulerEnqueueEvent { task_id: entry.task_id(at).to_string(), enqueue_time: Some(at.into()) };
            broker.record_enqueue(entry.as_str(), &event).await.unwrap();
        }
        entries.push(listed_entry(entry.as_str(), spec, kind, "reports", now));
    }
    entries.push(listed_entry("7b0c6c1e-6c1f-4f7c-9a63-51f4b3f5a0d2", "@every 90s", "sync:stock", "critical", now));
    broker.show_entries("shop:42:scheduler", &entries, Duration::from_secs(3600)).await.unwrap();
}

fn listed_entry(id: &str, spec: &str, kind: &str, queue: &str, now: chrono::DateTime<chrono::Utc>) -> SchedulerEntry {
    SchedulerEntry {
        id: id.into(),
        spec: spec.into(),
        task_type: kind.into(),
        task_payload: br#"{"full":false}"#.as_slice().into(),
        enqueue_options: vec![format!("Queue({queue:?})"), "MaxRetry(3)".into()],
        next_enqueue_time: Some((now + chrono::TimeDelta::minutes(4)).into()),
        prev_enqueue_time: Some(Timestamp::from(now - chrono::TimeDelta::minutes(11))),
        ..SchedulerEntry::default()
    }
}
