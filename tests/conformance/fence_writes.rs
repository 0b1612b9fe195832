//! The fence around writes of a running task: results and progress (docs/design/fence.md#extend-and-write).

use std::time::Duration;

use asynq_runtime::{
    broker::{Action, Run, Settled},
    task::Progress,
};
use asynq_tests::{Build as _, Store as _, archive, complete, done, requeue, retry, task};
use bytes::Bytes;

use super::Fixture;

/// Asserts that neither a result nor progress of `late` is written, and that the store is unchanged.
async fn nothing_gets_through(t: &Fixture, late: &Run, answer: Settled) {
    let before = t.store.dump();
    assert_eq!(t.broker().write_result(&late.key, &Bytes::from_static(b"stale")).await.unwrap(), answer);
    assert_eq!(t.broker().write_progress(&late.key, &Progress::new(0.1, "stale")).await.unwrap(), answer);
    assert_eq!(t.store.dump(), before);
}

/// Starts a run that is then lost to recovery, in a fixture where its task is pending.
async fn lost() -> (Fixture, Run) {
    let t = Fixture::start().await;
    let late = t.start_run(task("t1").with_retention(3600)).await;
    t.let_leases_pass();
    t.recover().await;
    (t, late)
}

#[tokio::test]
async fn nothing_stale_is_written_while_the_task_waits() {
    let (t, late) = lost().await;
    nothing_gets_through(&t, &late, Settled::Fenced).await;
}

#[tokio::test]
async fn nothing_stale_is_written_into_the_run_of_another() {
    let (t, late) = lost().await;
    let other = t.another_member(2).await;
    let rightful = t.take_one_as(&other).await;
    nothing_gets_through(&t, &late, Settled::Fenced).await;
    assert_eq!(t.broker().write_result(&rightful.key, &Bytes::from_static(b"ok")).await.unwrap(), Settled::Ok);
}

#[tokio::test]
async fn nothing_stale_is_written_into_the_next_task_of_that_id() {
    let (t, late) = lost().await;
    let rightful = t.take_one().await;
    t.settle(&rightful, done()).await;
    t.enqueue(task("t1")).await;
    t.take_one().await;
    let before = t.store.dump();
    assert_ne!(t.broker().write_result(&late.key, &Bytes::from_static(b"stale")).await.unwrap(), Settled::Ok);
    assert_ne!(t.broker().write_progress(&late.key, &Progress::new(0.1, "stale")).await.unwrap(), Settled::Ok);
    assert_eq!(t.store.dump(), before);
}

/// Asserts that a worker cannot write any more after its own run has ended.
async fn after(action: Action, answer: Settled) {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").with_retention(3600)).await;
    assert_eq!(t.settle(&run, action).await, Settled::Ok);
    nothing_gets_through(&t, &run, answer).await;
}

#[tokio::test]
async fn nothing_is_written_after_done() {
    after(done(), Settled::Gone).await;
}

#[tokio::test]
async fn nothing_is_written_after_complete() {
    after(complete("42"), Settled::Fenced).await;
}

#[tokio::test]
async fn nothing_is_written_after_retry() {
    after(retry(Duration::from_secs(60), "boom"), Settled::Fenced).await;
}

#[tokio::test]
async fn nothing_is_written_after_archive() {
    after(archive("fatal"), Settled::Fenced).await;
}

#[tokio::test]
async fn nothing_is_written_after_requeue() {
    after(requeue(), Settled::Fenced).await;
}

#[tokio::test]
async fn an_id_can_be_used_again_after_a_write_that_came_too_late() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    t.settle(&run, done()).await;
    t.broker().write_result(&run.key, &Bytes::from_static(b"stale")).await.unwrap();
    t.enqueue(task("t1")).await;
}

#[tokio::test]
async fn a_lapsed_lease_that_no_server_took_still_lets_writes_through() {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").with_retention(60)).await;
    t.let_leases_pass();
    assert_eq!(t.broker().write_result(&run.key, &Bytes::from_static(b"1")).await.unwrap(), Settled::Ok);
    assert_eq!(t.broker().write_progress(&run.key, &Progress::new(1.0, "")).await.unwrap(), Settled::Ok);
}
