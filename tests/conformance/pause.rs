//! Contract `Inspect`'s two switches: a paused queue gives nothing and loses nothing.

use std::time::Duration;

use asynq_runtime::{broker::Settled, task::TaskState};
use asynq_tests::{Build as _, default_queue, done, queue, requeue, task};

use super::Fixture;

#[tokio::test]
async fn pausing_says_whether_the_queue_was_running() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    assert!(t.broker().pause(&default_queue()).await.unwrap());
    assert!(!t.broker().pause(&default_queue()).await.unwrap());
}

#[tokio::test]
async fn resuming_says_whether_the_queue_was_paused() {
    let t = Fixture::start().await;
    assert!(!t.broker().resume(&default_queue()).await.unwrap());
    t.broker().pause(&default_queue()).await.unwrap();
    assert!(t.broker().resume(&default_queue()).await.unwrap());
    assert!(!t.broker().resume(&default_queue()).await.unwrap());
}

#[tokio::test]
async fn a_resumed_queue_gives_again_in_order() {
    let t = Fixture::start().await;
    t.seed_pending(&["1", "2"]).await;
    t.broker().pause(&default_queue()).await.unwrap();
    assert!(t.take(10).await.is_empty());
    t.seed_pending(&["3"]).await;
    t.broker().resume(&default_queue()).await.unwrap();
    assert_eq!(t.drain().await, ["1", "2", "3"]);
}

#[tokio::test]
async fn a_pause_shows_in_the_stats() {
    let t = Fixture::start().await;
    t.seed_pending(&["1"]).await;
    t.broker().pause(&default_queue()).await.unwrap();
    assert!(t.snapshot().await.stats.paused);
    t.broker().resume(&default_queue()).await.unwrap();
    assert!(!t.snapshot().await.stats.paused);
}

#[tokio::test]
async fn a_queue_can_be_paused_before_it_exists() {
    let t = Fixture::start().await;
    assert!(t.broker().pause(&queue("later")).await.unwrap());
    t.enqueue(task("t1").in_queue("later")).await;
    let wanted = [asynq_runtime::broker::Wanted { queue: queue("later"), n: 1 }];
    assert!(t.broker().dequeue(t.member(), &wanted).await.unwrap().is_empty());
    t.broker().resume(&queue("later")).await.unwrap();
    assert_eq!(t.broker().dequeue(t.member(), &wanted).await.unwrap().len(), 1);
}

#[tokio::test]
async fn runs_of_a_paused_queue_go_on() {
    let t = Fixture::start().await;
    t.seed_pending(&["1", "2"]).await;
    let runs = t.take(2).await;
    t.broker().pause(&default_queue()).await.unwrap();
    assert_eq!(t.extend(&runs[0].key).await, Settled::Ok);
    assert_eq!(t.settle(&runs[0], done()).await, Settled::Ok);
    assert_eq!(t.settle(&runs[1], requeue()).await, Settled::Ok);
    assert_eq!(t.snapshot().await.ids(TaskState::Pending), ["2"]);
}

#[tokio::test]
async fn a_paused_queue_takes_new_tasks() {
    let t = Fixture::start().await;
    t.broker().pause(&default_queue()).await.unwrap();
    t.seed_pending(&["1"]).await;
    t.seed_scheduled("2", Duration::from_secs(60)).await;
    assert_eq!(t.snapshot().await.len(), 2);
}

#[tokio::test]
async fn a_pause_holds_for_every_process() {
    let t = Fixture::start().await;
    t.seed_pending(&["1"]).await;
    let there = t.another_broker().await;
    there.pause(&default_queue()).await.unwrap();
    assert!(t.take(1).await.is_empty());
    t.broker().resume(&default_queue()).await.unwrap();
    assert!(!there.queue_stats(&default_queue()).await.unwrap().paused);
}
