//! Go programs on the same queues: Go has no fence, so asynq's own has to hold (docs/design/fence.md#attacks).

use std::time::Duration;

use asynq_runtime::{
    broker::{Action, Page, Run, Settled},
    task::{Progress, TaskMessage, TaskState},
};
use asynq_tests::{
    Build as _, GoPeer, Seeded as _, Store as _, archive, complete, default_queue, done, requeue, retry, task,
};

use super::Fixture;

const MINUTE: Duration = Duration::from_secs(60);

fn now_ns(t: &Fixture) -> i64 {
    t.now().timestamp_nanos_opt().unwrap()
}

fn message(id: &str) -> TaskMessage {
    task(id).message
}

async fn refused(t: &Fixture, late: &Run, action: Action) {
    let before = t.store.dump();
    assert_eq!(t.settle(late, action).await, Settled::Fenced);
    assert_eq!(t.store.dump(), before, "a stale outcome changes nothing at all");
}

/// A Go server recovers our run, retries and runs it.
async fn a_go_server_recovered_and_runs_it(action: Action) {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    let late = t.start_run(task("t1").with_retention(60)).await;
    t.advance(2 * MINUTE);
    go.recover("t1", t.now().timestamp());
    go.forward("t1", now_ns(&t));
    go.dequeue(t.now().timestamp() + 30);
    refused(&t, &late, action).await;
    assert_eq!(t.extend(&late.key).await, Settled::Fenced);
    go.done("t1");
}

/// We recovered the run, and a Go server runs the task with its message unchanged.
async fn we_recovered_it_and_a_go_server_runs_it(action: Action) {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    let late = t.start_run(task("t1").with_retention(60)).await;
    t.let_leases_pass();
    t.recover().await;
    go.dequeue(t.now().timestamp() + 30);
    refused(&t, &late, action).await;
}

/// A stale Go worker requeues our live run, and a Go server takes the task.
async fn a_go_worker_requeued_it_and_a_go_server_runs_it(action: Action) {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    let late = t.start_run(task("t1").with_retention(60)).await;
    go.requeue("t1");
    refused(&t, &late, action.clone()).await;
    go.dequeue(t.now().timestamp() + 30);
    refused(&t, &late, action).await;
}

/// Attack F: a stale Go heartbeat extends the lease of our run; it stays ours.
async fn a_stale_go_heartbeat_takes_nothing_away(action: Action) {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    let run = t.start_run(task("t1").with_retention(60)).await;
    go.extend("t1", t.now().timestamp() + 300);
    assert_eq!(t.settle(&run, action).await, Settled::Ok);
}

every_outcome! {
    a_go_server_recovered_and_runs_it
    we_recovered_it_and_a_go_server_runs_it
    a_go_worker_requeued_it_and_a_go_server_runs_it
    a_stale_go_heartbeat_takes_nothing_away
}

#[tokio::test]
async fn our_requeue_sent_again_spares_the_run_of_a_go_server() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    let run = t.seed_active("t1").await;
    t.settle(&run, requeue()).await;
    go.dequeue(t.now().timestamp() + 30);
    let before = t.store.dump();
    t.resend(&run, requeue()).await;
    assert_eq!(t.store.dump(), before);
}

#[tokio::test]
async fn a_go_producers_task_is_taken_like_ours() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    go.enqueue(&message("t1"), now_ns(&t));
    assert_eq!(t.take_one().await.text(), &message("t1"));
}

#[tokio::test]
async fn a_go_run_gets_gos_grace_of_thirty_seconds() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    go.enqueue(&message("t1"), now_ns(&t));
    go.dequeue(t.now().timestamp() + 30);
    t.advance(Duration::from_secs(59));
    assert!(t.recover().await.is_empty());
    t.advance(Duration::from_secs(2));
    assert_eq!(t.recover().await, ["t1"]);
    assert_eq!(t.take_one().await.crashes, 1);
}

#[tokio::test]
async fn go_runs_in_their_grace_do_not_hide_our_dead() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    for i in 0..120 {
        go.enqueue(&message(&format!("go{i}")), now_ns(&t));
        go.dequeue(t.now().timestamp() + 30);
    }
    t.advance(Duration::from_secs(1));
    t.seed_active("ours").await;
    t.let_leases_pass();
    let mut found = Vec::new();
    for _ in 0..5 {
        found.extend(t.recover().await);
    }
    assert_eq!(found, ["ours"]);
}

#[tokio::test]
async fn a_task_that_go_scheduled_is_forwarded_in_its_second() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    go.schedule(&message("t1"), t.now().timestamp() + 10);
    t.advance(Duration::from_secs(9));
    assert_eq!(t.forward().await, 0);
    t.advance(Duration::from_secs(1));
    assert_eq!(t.forward().await, 1);
    assert_eq!(t.drain().await, ["t1"]);
}

#[tokio::test]
async fn a_task_that_go_forwarded_is_not_forwarded_again() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    t.seed_retry("t1", Duration::from_millis(1500)).await;
    t.advance(Duration::from_secs(3));
    go.forward("t1", now_ns(&t));
    assert_eq!(t.forward().await, 0);
    assert_eq!(t.drain().await, ["t1"]);
}

#[tokio::test]
async fn a_due_time_that_go_replaced_does_not_count() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    t.seed_retry("t1", Duration::from_millis(1500)).await;
    t.advance(Duration::from_secs(3));
    go.forward("t1", now_ns(&t));
    go.dequeue(t.now().timestamp() + 30);
    go.recover("t1", t.now().timestamp() + 600);
    assert_eq!(t.forward().await, 0, "the task waits for the time that Go gave it");
    t.advance(Duration::from_secs(600));
    assert_eq!(t.forward().await, 1);
}

#[tokio::test]
async fn a_stale_go_done_leaves_us_a_gone_and_nothing_behind() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    let run = t.seed_active("t1").await;
    go.done("t1");
    let before = t.store.dump();
    for action in [done(), complete("42"), retry(MINUTE, "boom"), archive("fatal"), requeue()] {
        assert_eq!(t.settle(&run, action).await, Settled::Gone);
    }
    assert_eq!(t.extend(&run.key).await, Settled::Gone);
    assert_eq!(t.store.dump(), before);
}

#[tokio::test]
async fn a_go_run_shows_as_active_with_its_lease() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    go.enqueue(&message("t1"), now_ns(&t));
    go.dequeue(t.now().timestamp() + 30);
    let info = t.broker().task(&default_queue(), &asynq_tests::task_id("t1")).await.unwrap().unwrap();
    assert_eq!(info.lease_until.unwrap().timestamp(), t.now().timestamp() + 30);
}

/// Lets the worker of a new task die twice, then a Go worker fails it twice by itself. `length` is that of the payload.
async fn crashes_before_failures_of_go(t: &Fixture, go: &GoPeer<'_>, length: usize, is_early: bool) -> Run {
    t.start_run(task("t1").with_payload("x".repeat(length))).await;
    t.let_leases_pass();
    t.recover().await;
    assert_eq!(t.take_one().await.crashes, 1);
    t.let_leases_pass();
    t.recover().await;
    if is_early {
        go.count_crashes_early("t1");
    }
    for _ in 0..2 {
        go.dequeue(t.now().timestamp() + 30);
        go.fail("t1", t.now().timestamp());
        go.forward("t1", now_ns(t));
    }
    t.take_one().await
}

#[tokio::test]
async fn an_attempt_that_a_go_worker_failed_ends_a_row_of_crashes() {
    // The script does not read a long message with the others.
    for length in [1, 100_000] {
        let t = Fixture::start().await;
        let Some(go) = t.go() else { return };
        assert_eq!(crashes_before_failures_of_go(&t, &go, length, false).await.crashes, 0);
        let (queue, id) = (default_queue(), asynq_tests::task_id("t1"));
        assert_eq!(t.broker().task(&queue, &id).await.unwrap().unwrap().crashes, 0, "people see what a worker sees");
        let listed = t.broker().tasks(&queue, TaskState::Active, Page::default()).await.unwrap();
        assert_eq!(listed.iter().map(|task| task.crashes).collect::<Vec<_>>(), [0]);
        for crashes in 1..=2 {
            t.let_leases_pass();
            assert_eq!(t.recover().await, ["t1"]);
            assert_eq!(t.take_one().await.crashes, crashes, "the row begins anew");
        }
    }
}

#[tokio::test]
async fn crashes_that_an_earlier_version_counted_are_counted_on() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    assert_eq!(crashes_before_failures_of_go(&t, &go, 1, true).await.crashes, 2);
    t.let_leases_pass();
    t.recover().await;
    assert_eq!(t.take_one().await.crashes, 3);
}

#[tokio::test]
async fn progress_of_our_run_is_not_shown_for_a_run_of_go() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    let run = t.start_run(task("t1").with_retention(60)).await;
    let progress = Progress::new(0.9, "row 9 of 10");
    assert_eq!(t.broker().write_progress(&run.key, &progress).await.unwrap(), Settled::Ok);
    let (queue, id) = (default_queue(), asynq_tests::task_id("t1"));
    let shown = async || t.broker().task(&queue, &id).await.unwrap().unwrap().progress;
    assert_eq!(shown().await, Some(progress));
    t.settle(&run, requeue()).await;
    go.dequeue(t.now().timestamp() + 30);
    assert_eq!(shown().await, None);
    assert_eq!(t.snapshot().await.active[0].progress, None);
    go.complete(&message("t1"), t.now().timestamp(), t.now().timestamp() + 60);
    assert_eq!(shown().await, None);
    assert_eq!(t.snapshot().await.completed[0].progress, None);
}

#[tokio::test]
async fn crashes_are_not_shown_after_a_success_of_go() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    t.start_run(task("t1").with_retention(60)).await;
    t.let_leases_pass();
    assert_eq!(t.recover().await, ["t1"]);
    go.dequeue(t.now().timestamp() + 30);
    assert_eq!(t.snapshot().await.active[0].crashes, 1);
    go.complete(&message("t1"), t.now().timestamp(), t.now().timestamp() + 60);
    assert_eq!(t.snapshot().await.completed[0].crashes, 0);
}
