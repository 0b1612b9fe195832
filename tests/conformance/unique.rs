//! Contract `Produce` and `Settle`: at most one waiting or running task holds a unique lock (RELIABILITY F19).

use std::time::Duration;

use asynq_runtime::{
    broker::{Action, Refused, Settled},
    task::{Extra, TaskState},
};
use asynq_tests::{
    Build as _, Store as _, archive, complete, default_queue, done, lock_key, requeue, retry, snooze, task,
};

use super::Fixture;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_held_lock_refuses_a_second_task_and_names_its_holder() {
    let t = Fixture::start().await;
    t.enqueue(task("first").locked(&lock_key("k"), 60)).await;
    let before = t.store.dump();

    let refused = t.try_enqueue(task("second").locked(&lock_key("k"), 60)).await;

    assert!(matches!(&refused, Err(Refused::Duplicate { holder: Some(id) }) if *id == "first"), "{refused:?}");
    assert_eq!(t.store.dump(), before, "a duplicate stores nothing");
}

#[tokio::test]
async fn another_key_is_another_lock() {
    let t = Fixture::start().await;
    t.enqueue(task("t1").locked(&lock_key("a"), 60)).await;
    t.enqueue(task("t2").locked(&lock_key("b"), 60)).await;
    assert_eq!(t.drain().await, ["t1", "t2"]);
}

#[tokio::test]
async fn a_task_without_a_lock_passes_a_held_one() {
    let t = Fixture::start().await;
    t.enqueue(task("t1").locked(&lock_key("k"), 60)).await;
    t.enqueue(task("t2")).await;
}

#[tokio::test]
async fn an_id_conflict_leaves_no_lock_behind() {
    let t = Fixture::start().await;
    t.seed_pending(&["taken"]).await;
    let refused = t.try_enqueue(task("taken").locked(&lock_key("k"), 60)).await;
    assert!(matches!(refused, Err(Refused::IdConflict)), "{refused:?}");
    assert_eq!(t.holder_of(&lock_key("k")).await, None);
}

#[tokio::test]
async fn a_lock_ends_with_its_time() {
    let t = Fixture::start().await;
    t.enqueue(task("t1").locked(&lock_key("k"), 60)).await;
    t.advance(Duration::from_secs(59));
    assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "t1");
    t.advance(Duration::from_secs(2));
    assert_eq!(t.holder_of(&lock_key("k")).await, None);
}

#[tokio::test]
async fn the_time_of_a_scheduled_tasks_lock_starts_when_it_is_due() {
    let t = Fixture::start().await;
    t.enqueue(task("t1").after(MINUTE).locked(&lock_key("k"), 60)).await;
    t.advance(Duration::from_secs(118));
    assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "t1");
    t.advance(Duration::from_secs(4));
    assert_eq!(t.holder_of(&lock_key("k")).await, None);
}

#[tokio::test]
async fn a_lock_that_someone_else_took_over_is_not_freed() {
    let t = Fixture::start().await;
    let late = t.start_run(task("late").locked(&lock_key("k"), 5)).await;
    t.advance(Duration::from_secs(6));
    t.enqueue(task("next").locked(&lock_key("k"), 600)).await;

    assert_eq!(t.settle(&late, done()).await, Settled::Ok);

    assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "next");
}

#[tokio::test]
async fn a_lock_is_held_while_its_task_runs() {
    let t = Fixture::start().await;
    t.start_run(task("t1").locked(&lock_key("k"), 60)).await;
    assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "t1");
}

#[tokio::test]
async fn a_lock_outlives_the_death_of_a_worker() {
    let t = Fixture::start().await;
    t.start_run(task("t1").locked(&lock_key("k"), 600)).await;
    t.let_leases_pass();
    assert_eq!(t.recover().await, ["t1"]);
    assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "t1");
}

#[tokio::test]
async fn a_lock_of_a_task_that_cannot_be_read_is_freed_with_it() {
    let t = Fixture::start().await;
    t.enqueue(task("t1").locked(&lock_key("k"), 600)).await;
    let run = t.take_one().await;
    // The settlement carries the message as it was dequeued, and with it the key.
    assert_eq!(t.settle(&run, archive("bad")).await, Settled::Ok);
    assert_eq!(t.holder_of(&lock_key("k")).await, None);
}

async fn frees(action: Action, state: Option<TaskState>) {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").kept(600).locked(&lock_key("k"), 600)).await;
    assert_eq!(t.settle(&run, action).await, Settled::Ok);
    assert_eq!(t.broker().task(&default_queue(), &run.key.id).await.unwrap().map(|info| info.state), state);
    assert_eq!(t.holder_of(&lock_key("k")).await, None);
}

#[tokio::test]
async fn done_frees_the_lock() {
    frees(done(), None).await;
}

#[tokio::test]
async fn complete_frees_the_lock() {
    frees(complete("42"), Some(TaskState::Completed)).await;
}

#[tokio::test]
async fn archive_frees_the_lock() {
    frees(archive("fatal"), Some(TaskState::Archived)).await;
}

async fn keeps(action: Action) {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").locked(&lock_key("k"), 600)).await;
    assert_eq!(t.settle(&run, action).await, Settled::Ok);
    assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "t1");
}

#[tokio::test]
async fn retry_keeps_the_lock() {
    keeps(retry(MINUTE, "boom")).await;
}

#[tokio::test]
async fn a_snooze_keeps_the_lock() {
    keeps(snooze(MINUTE, Extra::default())).await;
}

#[tokio::test]
async fn requeue_keeps_the_lock() {
    keeps(requeue()).await;
}

#[tokio::test]
async fn a_stale_outcome_does_not_free_the_lock() {
    let t = Fixture::start().await;
    let stale = t.start_run(task("t1").locked(&lock_key("k"), 600)).await;
    t.let_leases_pass();
    t.recover().await;
    let _rightful = t.take_one().await;
    for action in [done(), complete("42"), archive("fatal")] {
        assert_eq!(t.settle(&stale, action).await, Settled::Fenced);
    }
    assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "t1");
}
