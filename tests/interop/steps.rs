//! The steps of a task's life, each shown for every ordered pair of producer and worker.

use std::time::Instant;

use asynq_runtime::{TaskState, inspector::Force, prelude::*};
use asynq_tests::{eventually, skip};
use serde_json::json;

use crate::interop::{
    go::NO_GO,
    side::{Order, Side},
    stage::{Stage, with_every_pair},
    worker::{Settings, Worker},
};

#[tokio::test]
async fn enqueue_dequeue_succeed() {
    with_every_pair("enqueue, dequeue, succeed", async |stage, pair, queue| {
        let order = Order { retry: Some(7), timeout_s: 90, ..Order::new("succeed", "päyload") };
        let id = stage.enqueue(pair.producer, &queue, &order).await;
        let seen = stage.both_see(&queue, &id, "pending").await;
        assert_eq!((seen.max_retry, seen.timeout_s), (7, 90.0));
        let mut worker = stage.worker(pair.worker, &queue).await;
        assert_eq!(worker.starts(&id).await["payload"], order.payload());
        worker.does(&id).await;
        stage.both_miss(&queue, &id).await;
        assert_eq!(stage.go("queue", &queue, "")["Processed"], 1);
    })
    .await;
}

#[tokio::test]
async fn schedule_forward() {
    with_every_pair("schedule, forward", async |stage, pair, queue| {
        let mut worker = stage.worker(pair.worker, &queue).await;
        let order = Order { delay_ms: 3_600_000, ..Order::new("succeed", "in an hour") };
        let id = stage.enqueue(pair.producer, &queue, &order).await;
        stage.both_see(&queue, &id, "scheduled").await;
        let began = Instant::now();
        let order = Order { delay_ms: 2_000, ..Order::new("succeed", "later") };
        let id = stage.enqueue(pair.producer, &queue, &order).await;
        worker.does(&id).await;
        // Go truncates the time to whole seconds.
        assert!(began.elapsed().as_millis() >= 1_000, "ran after {:?}", began.elapsed());
    })
    .await;
}

#[tokio::test]
async fn fail() {
    with_every_pair("fail", async |stage, pair, queue| {
        let mut worker = stage.worker(pair.worker, &queue).await;
        let id = stage.enqueue(pair.producer, &queue, &Order::new("fail", "the oven is cold")).await;
        worker.starts(&id).await;
        let seen = stage.both_see(&queue, &id, "retry").await;
        assert_eq!((seen.last_error.as_str(), seen.retried), ("the oven is cold", 1));
        assert_eq!(stage.go("queue", &queue, "")["Failed"], 1);
    })
    .await;
}

#[tokio::test]
async fn retry() {
    with_every_pair("retry", async |stage, pair, queue| {
        let mut worker = stage.worker(pair.worker, &queue).await;
        let order = Order { retention_s: 600, ..Order::new("fail once", "not yet") };
        let id = stage.enqueue(pair.producer, &queue, &order).await;
        assert_eq!(worker.starts(&id).await["retried"], 0);
        assert_eq!(worker.starts(&id).await["retried"], 1);
        worker.does(&id).await;
        assert_eq!(stage.both_see(&queue, &id, "completed").await.retried, 1);
    })
    .await;
}

#[tokio::test]
async fn panic() {
    with_every_pair("panic", async |stage, pair, queue| {
        let _worker = stage.worker(pair.worker, &queue).await;
        let id = stage.enqueue(pair.producer, &queue, &Order::new("panic", "sugar in the gears")).await;
        let seen = stage.both_see(&queue, &id, "retry").await;
        assert!(seen.last_error.contains("sugar in the gears"), "{}", seen.last_error);
    })
    .await;
}

#[tokio::test]
async fn time_out() {
    with_every_pair("time out", async |stage, pair, queue| {
        let _worker = stage.worker(pair.worker, &queue).await;
        let order = Order { timeout_s: 1, ..Order::new("hang", "") };
        let id = stage.enqueue(pair.producer, &queue, &order).await;
        let seen = stage.both_see(&queue, &id, "retry").await;
        assert_eq!(seen.last_error, "context deadline exceeded");
    })
    .await;
}

#[tokio::test]
async fn keep_a_result() {
    with_every_pair("keep a result", async |stage, pair, queue| {
        let _worker = stage.worker(pair.worker, &queue).await;
        let order = Order { retention_s: 600, ..Order::new("answer", r#"{"width":80}"#) };
        let id = stage.enqueue(pair.producer, &queue, &order).await;
        let seen = stage.both_see(&queue, &id, "completed").await;
        assert_eq!((seen.result.as_str(), seen.retention_s), (r#"{"width":80}"#, 600.0));
    })
    .await;
}

#[tokio::test]
async fn archive() {
    with_every_pair("archive", async |stage, pair, queue| {
        let _worker = stage.worker(pair.worker, &queue).await;
        let last = Order { retry: Some(0), ..Order::new("fail", "no retry left") };
        let last = stage.enqueue(pair.producer, &queue, &last).await;
        let hopeless = stage.enqueue(pair.producer, &queue, &Order::new("give up", "no such address")).await;
        assert_eq!(stage.both_see(&queue, &last, "archived").await.last_error, "no retry left");
        let seen = stage.both_see(&queue, &hopeless, "archived").await;
        assert!(seen.last_error.contains("no such address"), "{}", seen.last_error);
        let revoked = stage.enqueue(pair.producer, &queue, &Order::new("revoke", "not wanted")).await;
        stage.both_miss(&queue, &revoked).await;
    })
    .await;
}

#[tokio::test]
async fn cancel() {
    with_every_pair("cancel", async |stage, pair, queue| {
        let mut worker = stage.worker(pair.worker, &queue).await;
        let id = stage.enqueue(pair.producer, &queue, &Order::new("hang", "")).await;
        worker.starts(&id).await;
        stage.both_see(&queue, &id, "active").await;
        // A worker may start a task before it listens for cancel requests, and Go's are stored nowhere: so the request is repeated.
        eventually("the request is received", async || {
            stage.cancel(pair.producer, &id).await;
            stage.look(pair.producer, &queue, &id).await.filter(|seen| seen.state == "retry").map(drop)
        })
        .await;
        assert_eq!(stage.both_see(&queue, &id, "retry").await.last_error, "context canceled");
    })
    .await;
}

#[tokio::test]
async fn unique() {
    with_every_pair("unique", async |stage, pair, queue| {
        let order = Order { unique_s: 600, ..Order::new("succeed", "once") };
        let id = stage.enqueue(pair.producer, &queue, &order).await;
        for side in [pair.producer, pair.worker, pair.producer.other()] {
            let refused = stage.try_enqueue(side, &queue, &order).await.unwrap_err();
            assert!(refused.contains("already"), "{side}: {refused}");
        }
        let mut worker = stage.worker(pair.worker, &queue).await;
        worker.does(&id).await;
        stage.both_miss(&queue, &id).await;
        // The success has released the lock, for either side.
        let next = stage.enqueue(pair.producer.other(), &queue, &order).await;
        worker.does(&next).await;
    })
    .await;
}

/// The job of a debounced enqueue; each side's worker runs it.
#[job(name = "interop:do", codec = "json", unique = "10m", unique_by = "text")]
async fn edited(r#do: String, text: String) -> JobResult;

/// The message of a replaced task names the task twice: first by the id that it was sent with, then by its present id. Go reads
/// the last id, as we do.
#[tokio::test]
async fn replace() {
    let Some(stage) = Stage::start().await else { skip!("{NO_GO}") };
    for side in [Side::Go, Side::Rust] {
        let queue = format!("replace-{side}");
        let order = |item: &str| edited::job(item, "page 7").queue(&queue).process_in("1h").or_replace();
        let first = order("fail").enqueue(&stage.client).await.unwrap();
        stage.both_see(&queue, first.id.as_str(), "scheduled").await;
        let second = order("succeed").retry(7).header("trace", "00-ab").enqueue(&stage.client).await.unwrap();
        assert_eq!(second.replaced(), Some(&first.id));
        let seen = stage.both_see(&queue, first.id.as_str(), "scheduled").await;
        assert_eq!((seen.payload.as_str(), seen.max_retry), (r#"{"do":"succeed","text":"page 7"}"#, 7));
        assert_eq!(seen.headers, [("trace".to_owned(), "00-ab".to_owned())]);

        stage.change(side, "run", &queue, first.id.as_str()).await;
        let mut worker = stage.worker(side, &queue).await;
        assert_eq!(worker.starts(first.id.as_str()).await["payload"], seen.payload);
        worker.does(first.id.as_str()).await;
        stage.both_miss(&queue, first.id.as_str()).await;
        let next = order("succeed").enqueue(&stage.client).await.unwrap();
        assert!(next.id != first.id && next.replaced().is_none(), "its end has freed the lock");
    }
}

#[tokio::test]
async fn task_id() {
    with_every_pair("task id", async |stage, pair, queue| {
        let order = Order { task_id: Some("invoice-7".into()), ..Order::new("succeed", "") };
        assert_eq!(stage.enqueue(pair.producer, &queue, &order).await, "invoice-7");
        for side in [pair.producer, pair.producer.other()] {
            let refused = stage.try_enqueue(side, &queue, &order).await.unwrap_err();
            assert!(refused.contains("conflict") || refused.contains("taken"), "{side}: {refused}");
        }
        let mut worker = stage.worker(pair.worker, &queue).await;
        worker.does("invoice-7").await;
    })
    .await;
}

#[tokio::test]
async fn group() {
    with_every_pair("group", async |stage, pair, queue| {
        for text in ["a", "b", "c"] {
            let order = Order { group: Some("mails"), ..Order::new("succeed", text) };
            let id = stage.enqueue(pair.producer, &queue, &order).await;
            assert_eq!(stage.both_see(&queue, &id, "aggregating").await.group, "mails");
        }
        let settings = Settings { aggregate: true, ..Settings::of(&queue) };
        let mut worker = Worker::start(pair.worker, &stage.address(), &settings).await;
        let made = worker.event("start", |_| true).await;
        let payload: serde_json::Value = serde_json::from_str(made["payload"].as_str().unwrap()).unwrap();
        let text = payload["text"].as_str().unwrap();
        let (group, texts) = text.split_once(": ").unwrap();
        // Within a second Redis orders by id.
        let mut texts: Vec<&str> = texts.split(',').collect();
        texts.sort_unstable();
        assert_eq!((group, texts), ("mails", vec!["a", "b", "c"]));
        worker.does(made["id"].as_str().unwrap()).await;
        assert_eq!(stage.go("queue", &queue, "")["Aggregating"], 0);
    })
    .await;
}

#[tokio::test]
async fn headers() {
    with_every_pair("headers", async |stage, pair, queue| {
        let order = Order { headers: vec![("trace", "00-ab"), ("empty", "")], ..Order::new("succeed", "") };
        let id = stage.enqueue(pair.producer, &queue, &order).await;
        stage.both_see(&queue, &id, "pending").await;
        let mut worker = stage.worker(pair.worker, &queue).await;
        assert_eq!(worker.starts(&id).await["headers"], json!({ "trace": "00-ab", "empty": "" }));
    })
    .await;
}

#[tokio::test]
async fn pause() {
    with_every_pair("pause", async |stage, pair, queue| {
        let other = format!("beside-{pair}");
        stage.pause(pair.producer, &queue, true).await;
        let held = stage.enqueue(pair.producer, &queue, &Order::new("succeed", "held")).await;
        let settings = Settings { queues: vec![queue.clone(), other.clone()], ..Settings::of(&queue) };
        let mut worker = Worker::start(pair.worker, &stage.address(), &settings).await;
        // The worker takes tasks of the other queue, again and again, and not the one of the paused queue.
        for _ in 0..3 {
            let free = stage.enqueue(pair.producer, &other, &Order::new("succeed", "free")).await;
            let started = worker.event("start", |_| true).await;
            assert_eq!(started["id"], json!(free));
            stage.both_miss(&other, &free).await;
        }
        assert_eq!(stage.both_see(&queue, &held, "pending").await.retried, 0);
        stage.pause(pair.producer.other(), &queue, false).await;
        worker.does(&held).await;
    })
    .await;
}

#[tokio::test]
async fn recover() {
    // The pair's worker takes over from a worker of the other side, and from one of its own, that was killed with -9.
    with_every_pair("recover after kill -9", async |stage, pair, queue| {
        for dead in [pair.worker.other(), pair.worker] {
            let queue = format!("{queue}-from-{dead}");
            let marker = stage.folder.path().join(&queue);
            let order = Order { retry: Some(3), ..Order::new("hang once", marker.to_str().unwrap()) };
            let id = stage.enqueue(pair.producer, &queue, &order).await;
            let mut killed = stage.worker(dead, &queue).await;
            killed.starts(&id).await;
            eventually("the task has left its marker", async || marker.exists().then_some(())).await;
            drop(killed);
            stage.both_see(&queue, &id, "active").await;
            stage.let_lease_pass(&queue, &id);
            let mut worker = stage.worker(pair.worker, &queue).await;
            worker.does(&id).await;
            stage.both_miss(&queue, &id).await;
        }
    })
    .await;
}

#[tokio::test]
async fn repair() {
    // The producer makes tasks, the inspector of the other side changes them, and the pair's worker runs them.
    with_every_pair("inspect and repair", async |stage, pair, queue| {
        let inspector = pair.producer.other();
        let order = Order { retention_s: 600, ..Order::new("answer", "1") };
        let later = Order { delay_ms: 3_600_000, ..order.clone() };
        let scheduled = stage.enqueue(pair.producer, &queue, &later).await;
        let pending = stage.enqueue(pair.producer, &queue, &order).await;
        let deleted = stage.enqueue(pair.producer, &queue, &order).await;
        stage.change(inspector, "archive", &queue, &pending).await;
        stage.both_see(&queue, &pending, "archived").await;
        stage.change(inspector, "delete", &queue, &deleted).await;
        stage.both_miss(&queue, &deleted).await;
        stage.change(inspector, "run", &queue, &scheduled).await;
        stage.change(inspector.other(), "run", &queue, &pending).await;
        let _worker = stage.worker(pair.worker, &queue).await;
        for id in [scheduled, pending] {
            assert_eq!(stage.both_see(&queue, &id, "completed").await.result, "1");
        }
    })
    .await;
}

#[tokio::test]
async fn repair_many() {
    // Repairs beyond those of Go's inspector, by ours, for tasks of either side and workers of either side.
    with_every_pair("move, edit, bulk repair by Rust", async |stage, pair, queue| {
        let beside = format!("beside-{pair}");
        let inspector = stage.client.inspector();
        let order = Order { retention_s: 600, delay_ms: 3_600_000, unique_s: 600, ..Order::new("answer", "1") };
        let edited = stage.enqueue(pair.producer, &queue, &order).await;
        let other = Order::new("answer", "2").payload();
        inspector.edit_raw(&queue, &edited, other).await.unwrap();
        // The lock of the old payload is free again: the same order is not a duplicate.
        let moved = stage.enqueue(pair.producer.other(), &queue, &order).await;
        inspector.move_to(&queue, &moved, &beside).await.unwrap();
        stage.both_see(&beside, &moved, "scheduled").await;

        let many = Order { unique_s: 0, ..order };
        let mut ids = vec![edited.clone()];
        for _ in 0..4 {
            ids.push(stage.enqueue(pair.producer, &queue, &many).await);
        }
        let report = inspector.archive_all(&queue, TaskState::Scheduled).await.unwrap();
        assert_eq!((report.changed, report.left), (5, 0));
        for id in &ids {
            stage.both_see(&queue, id, "archived").await;
        }
        assert_eq!(inspector.run_all(&queue, TaskState::Archived).await.unwrap().changed, 5);
        let _worker = stage.worker(pair.worker, &queue).await;
        for id in &ids {
            let expected = if *id == edited { "2" } else { "1" };
            assert_eq!(stage.both_see(&queue, id, "completed").await.result, expected);
        }
        assert_eq!(inspector.delete_all(&queue, TaskState::Completed).await.unwrap().changed, 5);
        inspector.delete_queue(&beside, Force::Yes).await.unwrap();
        let left = stage.go("queues", "", "");
        assert!(!left.as_array().unwrap().contains(&json!(beside)), "{left}");
    })
    .await;
}

#[tokio::test]
async fn failures_of_both() {
    // The errors of attempts that a Go worker made are kept only as far as Go keeps them: the last one.
    with_every_pair("read the failures of an attempt", async |stage, pair, queue| {
        let _worker = stage.worker(pair.worker, &queue).await;
        let id = stage.enqueue(pair.producer, &queue, &Order::new("fail", "the oven is cold")).await;
        stage.both_see(&queue, &id, "retry").await;
        let failures = stage.client.inspector().failures(&queue, &id).await.unwrap();
        let texts: Vec<(u32, &str)> = failures.iter().map(|f| (f.number, f.error.as_str())).collect();
        assert_eq!(texts, [(1, "the oven is cold")]);
    })
    .await;
}
