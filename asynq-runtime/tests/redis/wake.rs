//! Wakes up on time, whoever writes.

use std::time::{Duration, Instant};

use asynq_runtime::{
    broker::{Consume, Inspect, Maintain, Page, Placed, Produce, When, redis::RedisBroker},
    task::TaskState,
};
use redis::AsyncCommands;

use crate::{
    server::{Server, patient},
    tasks::*,
};

#[tokio::test]
async fn a_waiting_worker_wakes_on_the_push_of_a_stranger() {
    let server = Server::start(&[]).await;
    let mut redis = server.foreign().await;
    let broker = server.broker().await;
    let mut delays = Vec::new();
    for round in 0..50 {
        let queues = [queue()];
        let woken = async {
            broker.wait_for_work(&queues, Duration::from_secs(10)).await.unwrap();
            Instant::now()
        };
        let pushed = async {
            // The waiter has asked when Redis tracks its keys.
            while tracked_keys(&server).await < 2 {}
            let at = Instant::now();
            let () = redis.lpush("asynq:{default}:pending", round).await.unwrap();
            at
        };
        let (woken, pushed) = tokio::join!(woken, pushed);
        delays.push(woken - pushed);
        let () = server.foreign().await.del("asynq:{default}:pending").await.unwrap();
    }
    delays.sort();
    assert!(delays[25] < Duration::from_millis(20), "half of them took longer than {:?}", delays[25]);
}

#[tokio::test]
async fn a_worker_wakes_when_its_queue_is_resumed_and_when_redis_comes_back() {
    let mut server = Server::start(&[]).await;
    let broker = server.broker().await;
    put(&broker, &["a"]).await;
    assert!(broker.pause(&queue()).await.unwrap());
    assert!(!broker.pause(&queue()).await.unwrap());
    assert!(take(&broker, &member("me"), 1).await.is_empty());
    let queues = [queue()];
    let (woken, resumed) = tokio::join!(broker.wait_for_work(&queues, Duration::from_secs(10)), async {
        while tracked_keys(&server).await < 2 {}
        broker.resume(&queue()).await
    });
    woken.unwrap();
    assert!(resumed.unwrap());
    assert_eq!(take(&broker, &member("me"), 1).await.len(), 1);

    let begun = Instant::now();
    let (woken, ()) = tokio::join!(broker.wait_for_work(&queues, Duration::from_secs(20)), server.restart());
    // Either it was told of the loss, or it could not ask; it must not sleep on.
    assert!(woken.is_ok() || woken.unwrap_err().is_unavailable());
    assert!(begun.elapsed() < Duration::from_secs(10));
    let mut placed = broker.enqueue(vec![task("b")]).await.remove(0);
    while placed.is_err() {
        placed = broker.enqueue(vec![task("b")]).await.remove(0);
    }
    broker.wait_for_work(&queues, Duration::from_secs(20)).await.unwrap();
    assert_eq!(ids(&take(&broker, &member("me"), 1).await), ["b"]);
    assert_eq!(broker.queues().await.unwrap(), [queue()], "made known again to a Redis that lost it");
}

#[tokio::test]
async fn a_delayed_task_is_due_to_the_millisecond() {
    let server = Server::start(&[]).await;
    let broker = server.broker().await;
    let queues = [queue()];
    let mut late = task("late");
    late.when = When::In(Duration::from_millis(350));
    let begun = Instant::now();
    let placed: Placed = broker.enqueue(vec![late]).await.remove(0).unwrap();
    assert_eq!(placed.state, TaskState::Scheduled);
    let listed = broker.tasks(&queue(), TaskState::Scheduled, Page::default()).await.unwrap();
    assert_eq!(listed[0].next_process_at, Some(placed.process_at));
    // One that is due earlier, while the forwarder sleeps.
    let mut soon = task("soon");
    soon.when = When::In(Duration::from_millis(150));
    broker.enqueue(vec![soon]).await.remove(0).unwrap();
    let mut moved = Vec::new();
    while moved.len() < 2 {
        broker.wait_for_due(&queues, Duration::from_secs(5)).await.unwrap();
        broker.forward(&queues).await.unwrap();
        for run in take(&broker, &member("me"), 9).await {
            moved.push((run.key.id.to_string(), begun.elapsed()));
        }
    }
    assert_eq!([moved[0].0.as_str(), moved[1].0.as_str()], ["soon", "late"]);
    assert!(moved[0].1 >= Duration::from_millis(149) && moved[1].1 >= Duration::from_millis(349), "{moved:?}");
    assert!(moved[1].1 < Duration::from_millis(600), "{moved:?}");
}

#[tokio::test]
async fn where_tracking_is_refused_the_queue_is_polled() {
    let server = Server::start(&[]).await;
    let mut redis = server.foreign().await;
    let rules = ["SETUSER", "limited", "on", ">pw", "~*", "&*", "+@all", "-client|tracking"];
    let () = redis::cmd("ACL").arg(&rules).query_async(&mut redis).await.unwrap();
    let url = format!("{}?user=limited&pass=pw", server.url());
    let broker = RedisBroker::connect(&url, patient()).await.unwrap();
    let begun = Instant::now();
    let queues = [queue()];
    let (woken, ()) = tokio::join!(broker.wait_for_work(&queues, Duration::from_secs(20)), put(&broker, &["a"]));
    woken.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(take(&broker, &member("me"), 1).await.len(), 1);
    let mut soon = task("soon");
    soon.when = When::In(Duration::from_millis(300));
    let (woken, placed) =
        tokio::join!(broker.wait_for_due(&queues, Duration::from_secs(20)), broker.enqueue(vec![soon]));
    woken.unwrap();
    placed[0].as_ref().unwrap();
    assert_eq!(broker.forward(&queues).await.unwrap().moved, 1);
}
