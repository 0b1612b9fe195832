//! Cancel requests that are made while no worker listens.

use std::{collections::HashMap, sync::Arc};

use asynq_runtime::{
    Registry, Server as Worker, TaskState,
    broker::{Action, Broker, Changed, Maintain as _, Repair as _, Run, RunKey, redis::RedisBroker},
    prelude::*,
};
use asynq_test_support::soon;
use redis::aio::MultiplexedConnection;
use tokio::sync::Notify;

use super::{
    server::Server,
    tasks::{id, member, put, queue, settle, take},
};

#[job(retry = 0)]
async fn hangs_until_cancelled(begun: State<Arc<Notify>>) -> JobResult {
    begun.notify_one();
    std::future::pending().await
}

async fn allow_clients(redis: &mut MultiplexedConnection, most: &str) {
    redis::cmd("CONFIG").arg(&["SET", "maxclients", most]).exec_async(redis).await.unwrap();
}

#[tokio::test]
async fn a_request_that_no_subscription_received_reaches_the_worker_with_its_next_one() {
    let server = Server::start(&[]);
    let (broker, mut redis) = (Arc::new(server.broker().await), server.foreign().await);
    let begun = Arc::new(Notify::new());
    let worker = Worker::builder("")
        .broker(Arc::clone(&broker) as Arc<dyn Broker>)
        .registry(Registry::only::<(hangs_until_cancelled,)>().unwrap())
        .state(Arc::clone(&begun));
    let running = worker.build().await.unwrap().start().await.unwrap();
    soon(running.signals().subscribed.reached(1)).await;
    hangs_until_cancelled::job().task_id("t").enqueue(&running.client()).await.unwrap();
    soon(begun.notified()).await;
    let settings: HashMap<String, String> =
        redis::cmd("CONFIG").arg(&["GET", "maxclients"]).query_async(&mut redis).await.unwrap();

    // The connections that there are stay; the worker cannot subscribe again before the request has been made.
    allow_clients(&mut redis, "1").await;
    let cut: i64 = redis::cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub"]).query_async(&mut redis).await.unwrap();
    assert_eq!(cut, 1);
    assert!(!running.client().inspector().cancel_in("default", "t").await.unwrap(), "its worker lives");
    assert_eq!(running.signals().subscribed.count(), 1);
    allow_clients(&mut redis, &settings["maxclients"]).await;

    soon(running.signals().settled.reached(1)).await;
    let task = running.client().inspector().task("default", "t").await.unwrap();
    assert_eq!((task.state, task.last_error.as_deref()), (TaskState::Archived, Some("context canceled")));
    soon(running.shutdown()).await.unwrap();
}

/// Returns for each run whether it was asked to stop.
async fn asked(broker: &RedisBroker, runs: &[Run]) -> Vec<bool> {
    let keys: Vec<RunKey> = runs.iter().map(|run| run.key.clone()).collect();
    broker.asked_to_cancel(&keys).await.into_iter().map(Result::unwrap).collect()
}

#[tokio::test]
async fn a_request_is_kept_at_the_run_that_it_asked() {
    let server = Server::start(&[]);
    let broker = server.broker().await;
    put(&broker, &["a", "b"]).await;
    let runs = take(&broker, &member("me"), 2).await;
    assert_eq!(asked(&broker, &runs).await, [false, false]);
    assert_eq!(broker.end_orphan(&queue(), &id("a"), "lost").await.unwrap(), Changed::Unfit(TaskState::Active));
    assert_eq!(asked(&broker, &runs).await, [true, false]);
    settle(&broker, &runs[0], Action::Requeue).await;
    let again = take(&broker, &member("me"), 1).await;
    assert_eq!((again[0].key.id.as_str(), asked(&broker, &again).await), ("a", vec![false]));
    assert!(broker.asked_to_cancel(&[]).await.is_empty());
}
