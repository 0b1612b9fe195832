//! Contract `Produce` and `Settle`: at most one waiting or running task holds a unique lock.

use std::time::{Duration, Instant};

use asynq_runtime::{
    broker::{Action, HeldLock, Refused, Run, Settled},
    task::{Extra, TaskState, UniqueUntil},
};
use asynq_tests::{
    Build as _, Need, Store as _, archive, archive_with, complete, default_queue, done, eventually, lock_key, queue,
    requeue, retry, snooze, task, task_id,
};
use chrono::TimeDelta;

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
    t.enqueue(task("holder").locked(&lock_key("held"), 60)).await;
    let refused = t.try_enqueue(task("taken").locked(&lock_key("held"), 60)).await;
    assert!(matches!(refused, Err(Refused::IdConflict)), "an id that is taken is told first: {refused:?}");
}

#[tokio::test]
async fn a_lock_that_a_crash_left_behind_does_not_refuse_a_task_of_its_own_id() {
    let t = Fixture::start().await;
    if t.lacks(Need::LeftLock) {
        return;
    }
    t.store.leave_lock(&default_queue(), &lock_key("k"), &task_id("t1"), t.now() + TimeDelta::hours(1));
    t.enqueue(task("t1").locked(&lock_key("k"), 60)).await;

    assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "t1");
    t.advance(Duration::from_secs(62));
    assert_eq!(t.holder_of(&lock_key("k")).await, None, "its time is that of the new task");
}

#[tokio::test]
async fn a_lock_whose_task_is_gone_refuses_no_task() {
    let t = Fixture::start().await;
    if t.lacks(Need::LeftLock) {
        return;
    }
    let leave = |key: &str| {
        t.store.leave_lock(&default_queue(), &lock_key(key), &task_id("gone"), t.now() + TimeDelta::hours(1));
    };
    // Another queue has a task of that id.
    t.enqueue(task("gone").in_queue("low")).await;
    leave("k");
    t.enqueue(task("t1").locked(&lock_key("k"), 60)).await;
    assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "t1");
    t.advance(Duration::from_secs(62));
    assert_eq!(t.holder_of(&lock_key("k")).await, None, "its time is that of the new task");

    leave("other");
    let both = ["t2", "t3"].map(|id| task(id).locked(&lock_key("other"), 60)).to_vec();
    let [second, third] = t.broker().enqueue(both).await.try_into().unwrap();
    assert!(second.is_ok(), "{second:?}");
    let names_the_second = matches!(&third, Err(Refused::Duplicate { holder: Some(id) }) if *id == "t2");
    assert!(names_the_second, "of two in one call the first has it: {third:?}");
}

#[tokio::test]
async fn a_lock_is_held_in_every_state_of_its_task() {
    let t = Fixture::start().await;
    let hour = Duration::from_secs(3600);
    t.enqueue(task("scheduled").after(hour).locked(&lock_key("scheduled"), 60)).await;
    t.enqueue(task("aggregating").grouped("g").locked(&lock_key("aggregating"), 7200)).await;
    let archived = t.start_run(task("archived").locked(&lock_key("archived"), 7200)).await;
    t.settle(&archived, archive_with("fatal", until(UniqueUntil::Success))).await;
    let retried = t.start_run(task("retry").locked(&lock_key("retry"), 7200)).await;
    t.settle(&retried, retry(hour, "no")).await;
    t.start_run(task("active").locked(&lock_key("active"), 7200)).await;
    t.enqueue(task("pending").locked(&lock_key("pending"), 7200)).await;
    for state in ["scheduled", "aggregating", "archived", "retry", "active", "pending"] {
        let refused = t.try_enqueue(task("another").locked(&lock_key(state), 60)).await;
        let is_held = matches!(&refused, Err(Refused::Duplicate { holder: Some(id) }) if *id == state);
        assert!(is_held, "{state}: {refused:?}");
    }
}

#[tokio::test]
async fn a_lock_ends_with_its_time() {
    let t = Fixture::start().await;
    t.enqueue(task("t1").locked(&lock_key("k"), 3600)).await;
    t.advance(59 * MINUTE);
    assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "t1");
    t.advance(2 * MINUTE);
    assert_eq!(t.holder_of(&lock_key("k")).await, None);
}

#[tokio::test]
async fn the_time_of_a_scheduled_tasks_lock_starts_when_it_is_due() {
    let t = Fixture::start().await;
    t.enqueue(task("t1").after(60 * MINUTE).locked(&lock_key("k"), 3600)).await;
    t.advance(118 * MINUTE);
    assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "t1");
    t.advance(4 * MINUTE);
    assert_eq!(t.holder_of(&lock_key("k")).await, None);
    t.enqueue(task("t2").at(t.now() - TimeDelta::hours(1)).locked(&lock_key("late"), 60)).await;
    assert_eq!(t.holder_of(&lock_key("late")).await.unwrap(), "t2", "that of a task that is late starts now");
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
    t.store.overwrite_message(&default_queue(), &task_id("t1"), b"\xff\xff");
    let run = t.take_one().await;
    assert!(run.message.is_err(), "the settlement does not contain the key of the lock");
    assert_eq!(t.settle(&run, archive("bad")).await, Settled::Ok);
    assert_eq!(t.holder_of(&lock_key("k")).await, None);
}

async fn frees(action: Action, state: Option<TaskState>) {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").with_retention(600).locked(&lock_key("k"), 600)).await;
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

async fn keeps_lock(action: Action) {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").locked(&lock_key("k"), 600)).await;
    assert_eq!(t.settle(&run, action).await, Settled::Ok);
    assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "t1");
}

#[tokio::test]
async fn retry_keeps_the_lock() {
    keeps_lock(retry(MINUTE, "boom")).await;
}

#[tokio::test]
async fn a_snooze_keeps_the_lock() {
    keeps_lock(snooze(MINUTE, Extra::default())).await;
}

#[tokio::test]
async fn requeue_keeps_the_lock() {
    keeps_lock(requeue()).await;
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

fn until(unique_until: UniqueUntil) -> Extra {
    Extra { unique_until: unique_until.into(), ..Extra::default() }
}

#[tokio::test]
async fn archive_keeps_a_lock_that_lasts_until_success() {
    for (extra, holder) in [
        (until(UniqueUntil::Success), Some("t1")),
        (until(UniqueUntil::End), None),
        (until(UniqueUntil::Start), None),
        (Extra { unique_until: 99, ..Extra::default() }, None),
    ] {
        let t = Fixture::start().await;
        let run = t.start_run(task("t1").locked(&lock_key("k"), 600)).await;
        assert_eq!(t.settle(&run, archive_with("fatal", extra.clone())).await, Settled::Ok);
        let found = t.holder_of(&lock_key("k")).await;
        assert_eq!(found.as_ref().map(|id| id.as_str()), holder, "{extra:?}");
    }
}

#[tokio::test]
async fn success_frees_a_lock_that_lasts_until_success() {
    for action in [done(), complete("42")] {
        let t = Fixture::start().await;
        let lock = task("t1").with_retention(600).locked(&lock_key("k"), 600).with_extra(until(UniqueUntil::Success));
        let run = t.start_run(lock).await;
        assert_eq!(t.settle(&run, action).await, Settled::Ok);
        assert_eq!(t.holder_of(&lock_key("k")).await, None);
    }
}

#[tokio::test]
async fn a_kept_lock_goes_with_the_archived_task() {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").locked(&lock_key("k"), 600)).await;
    t.settle(&run, archive_with("fatal", until(UniqueUntil::Success))).await;
    let trimmed = t.broker().trim_archive(&default_queue(), MINUTE, 0, 10).await.unwrap();
    assert_eq!((trimmed, t.holder_of(&lock_key("k")).await), (1, None));
}

async fn free(t: &Fixture, run: &Run, key: &str) -> Settled {
    t.broker().free_lock(&run.key, key).await.unwrap()
}

#[tokio::test]
async fn a_lock_can_be_freed_while_its_task_runs() {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").locked(&lock_key("k"), 600)).await;
    assert_eq!(free(&t, &run, &lock_key("k")).await, Settled::Ok);
    t.enqueue(task("t2").locked(&lock_key("k"), 600)).await;
    assert_eq!(free(&t, &run, &lock_key("k")).await, Settled::Ok, "asking again is not an error");
    assert_eq!(t.settle(&run, done()).await, Settled::Ok);
    assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "t2", "it is another's by now");
}

#[tokio::test]
async fn a_lock_that_is_free_already_can_be_freed() {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1")).await;
    let before = t.store.dump();
    assert_eq!(free(&t, &run, &lock_key("k")).await, Settled::Ok);
    assert_eq!(free(&t, &run, "").await, Settled::Ok);
    assert_eq!(t.store.dump(), before);
}

#[tokio::test]
async fn a_stale_run_frees_no_lock() {
    let t = Fixture::start().await;
    let stale = t.start_run(task("t1").locked(&lock_key("k"), 600)).await;
    t.let_leases_pass();
    t.recover().await;
    assert_eq!(free(&t, &stale, &lock_key("k")).await, Settled::Fenced);
    let rightful = t.take_one().await;
    assert_eq!(free(&t, &stale, &lock_key("k")).await, Settled::Fenced);
    assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "t1");
    assert_eq!(free(&t, &rightful, &lock_key("k")).await, Settled::Ok);
    t.settle(&rightful, done()).await;
    assert_eq!(free(&t, &rightful, &lock_key("k")).await, Settled::Gone);
}

#[tokio::test]
async fn a_run_frees_no_lock_of_another_task() {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1")).await;
    t.enqueue(task("t2").locked(&lock_key("k"), 600)).await;
    assert_eq!(free(&t, &run, &lock_key("k")).await, Settled::Ok);
    assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "t2");
}

async fn extend(t: &Fixture, runs: &[&Run], key: &str) {
    let locks: Vec<_> = runs.iter().map(|run| HeldLock { run: run.key.clone(), key: key.into() }).collect();
    t.broker().extend_locks(&locks).await.unwrap();
}

#[tokio::test]
async fn an_extended_lock_outlives_an_outage_that_the_run_outlives() {
    const MARGIN: Duration = Duration::from_secs(2);
    let (t, holder) = eventually("a look within the margin", async || {
        let t = Fixture::start().await;
        // Redis also counts the time of a lock by its own clock, so a probe counts only if it came within the margin.
        let began = Instant::now();
        let run = t.start_run(task("t1").locked(&lock_key("k"), 5)).await;
        t.advance(Duration::from_secs(2));
        extend(&t, &[&run], &lock_key("k")).await;
        t.advance(20 * t.broker().lease() - MARGIN);
        let holder = t.holder_of(&lock_key("k")).await;
        (began.elapsed() < MARGIN).then_some((t, holder))
    })
    .await;
    assert_eq!(holder.unwrap(), "t1");
    t.advance(2 * MARGIN);
    assert_eq!(t.holder_of(&lock_key("k")).await, None);
}

#[tokio::test]
async fn a_lock_that_lasts_longer_is_not_made_shorter() {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").locked(&lock_key("k"), 600)).await;
    extend(&t, &[&run], &lock_key("k")).await;
    t.advance(9 * MINUTE);
    assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "t1");
}

#[tokio::test]
async fn only_a_run_that_is_still_ours_extends_its_own_lock() {
    let t = Fixture::start().await;
    let lease = t.broker().lease();
    let stale = t.start_run(task("t1").locked(&lock_key("k"), lease.as_secs() + 10)).await;
    t.let_leases_pass();
    t.recover().await;
    let rightful = t.take_one().await;
    extend(&t, &[&stale], &lock_key("k")).await;
    t.advance(Duration::from_secs(12));
    assert_eq!(t.holder_of(&lock_key("k")).await, None, "a stale run keeps no lock");

    t.enqueue(task("t2").locked(&lock_key("j"), 5)).await;
    extend(&t, &[&rightful], &lock_key("j")).await;
    t.advance(Duration::from_secs(7));
    assert_eq!(t.holder_of(&lock_key("j")).await, None, "the lock was another's");
}

#[tokio::test]
async fn a_lock_that_ended_during_the_run_is_taken_again_unless_another_has_it() {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").locked(&lock_key("k"), 5)).await;
    t.advance(Duration::from_secs(7));
    extend(&t, &[&run], &lock_key("k")).await;
    assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "t1");
    t.advance(20 * t.broker().lease() + Duration::from_secs(2));
    t.enqueue(task("t2").locked(&lock_key("k"), 60)).await;
    extend(&t, &[&run], &lock_key("k")).await;
    assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "t2");
    t.advance(Duration::from_secs(62));
    extend(&t, &[&run], &lock_key("k")).await;
    assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "t1", "the time of the other is over");
}

#[tokio::test]
async fn no_locks_and_unknown_locks_are_extended_without_a_word() {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1")).await;
    let elsewhere = t.start_run(task("t1").in_queue("other").locked("asynq:{other}:unique:t:k", 600)).await;
    let before = t.store.dump();
    extend(&t, &[], "").await;
    extend(&t, &[&run], &lock_key("k")).await;
    extend(&t, &[&run, &elsewhere], "").await;
    assert_eq!(t.store.dump(), before);
    assert_eq!(elsewhere.key.queue, queue("other"));
}
