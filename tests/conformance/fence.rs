//! The fence (docs/design/fence.md#attacks): a server that lost a run cannot end it any more, by any of the five outcomes,
//! and the server that holds the run always can.
//!
//! X is the late worker, Y the rightful one. A refused outcome changes nothing: the store is compared before and after.

use std::time::Duration;

use asynq_runtime::{
    broker::{Action, Run, Settled},
    task::TaskState,
};
use asynq_tests::{
    Build as _, Seeded as _, Store as _, archive, complete, default_queue, done, lock_key, requeue, retry, task,
};

use super::Fixture;

const MINUTE: Duration = Duration::from_secs(60);

/// Starts a run that X lost: its lease passed, and the task was recovered.
async fn lost() -> (Fixture, Run) {
    let t = Fixture::start().await;
    let late = t.start_run(task("t1").with_retention(3600).locked(&lock_key("k"), 6000)).await;
    t.let_leases_pass();
    assert_eq!(t.recover().await, ["t1"]);
    (t, late)
}

/// Sends X's outcome first and again; both are refused with `answer` and change nothing.
async fn refused(t: &Fixture, late: &Run, action: Action, answer: Settled) {
    let before = t.store.dump();
    assert_eq!(t.settle(late, action.clone()).await, answer);
    t.resend(late, action).await;
    assert_eq!(t.store.dump(), before, "a stale outcome changes nothing at all");
}

/// [`refused`] where the id is in use again: X's task is gone, and another task has its id. Either answer of
/// the broker about such an id is right.
async fn refused_either_way(t: &Fixture, late: &Run, action: Action) {
    let before = t.store.dump();
    assert_ne!(t.settle(late, action).await, Settled::Ok);
    assert_eq!(t.store.dump(), before, "a stale outcome changes nothing at all");
}

/// Asserts that Y holds the run and can end it.
async fn accepted(t: &Fixture, run: &Run, action: Action) {
    assert_eq!(t.settle(run, action.clone()).await, Settled::Ok);
    let state = match action {
        Action::Done => None,
        Action::Complete { .. } | Action::Revoke { .. } => Some(TaskState::Completed),
        Action::Retry { .. } | Action::Defer { .. } => Some(TaskState::Retry),
        Action::Archive { .. } => Some(TaskState::Archived),
        Action::Requeue => Some(TaskState::Pending),
    };
    let task = t.broker().task(&default_queue(), &run.key.id).await.unwrap();
    assert_eq!(task.map(|task| task.state), state);
}

async fn recovered_and_waiting(action: Action) {
    let (t, late) = lost().await;
    refused(&t, &late, action, Settled::Fenced).await;
    assert_eq!(t.take_one().await.crashes, 1);
}

async fn recovered_and_run_by_another(action: Action) {
    let (t, late) = lost().await;
    let other = t.another_member(2).await;
    let rightful = t.take_one_as(&other).await;
    refused(&t, &late, action.clone(), Settled::Fenced).await;
    accepted(&t, &rightful, action).await;
}

async fn recovered_and_run_by_the_same_member(action: Action) {
    let (t, late) = lost().await;
    let rightful = t.take_one().await;
    refused(&t, &late, action.clone(), Settled::Fenced).await;
    accepted(&t, &rightful, action).await;
}

async fn recovered_and_done_by_another(action: Action) {
    let (t, late) = lost().await;
    let rightful = t.take_one().await;
    accepted(&t, &rightful, done()).await;
    // Another queue has a task of that id.
    t.enqueue(task(late.key.id.as_str()).in_queue("low")).await;
    let before = t.store.dump();
    assert_eq!(t.settle(&late, action).await, Settled::Gone);
    assert_eq!(t.store.dump(), before);
}

async fn recovered_and_completed_by_another(action: Action) {
    let (t, late) = lost().await;
    let rightful = t.take_one().await;
    accepted(&t, &rightful, complete("theirs")).await;
    refused(&t, &late, action, Settled::Fenced).await;
}

async fn recovered_and_failed_by_another(action: Action) {
    let (t, late) = lost().await;
    let rightful = t.take_one().await;
    accepted(&t, &rightful, retry(MINUTE, "theirs")).await;
    refused(&t, &late, action, Settled::Fenced).await;
}

async fn the_id_is_used_again_and_waits(action: Action) {
    let (t, late) = lost().await;
    let rightful = t.take_one().await;
    accepted(&t, &rightful, done()).await;
    t.enqueue(task("t1").with_retention(3600)).await;
    refused_either_way(&t, &late, action).await;
}

async fn the_id_is_used_again_and_runs(action: Action) {
    let (t, late) = lost().await;
    let rightful = t.take_one().await;
    accepted(&t, &rightful, done()).await;
    let next = t.start_run(task("t1").with_retention(3600)).await;
    refused_either_way(&t, &late, action.clone()).await;
    accepted(&t, &next, action).await;
}

async fn a_lapsed_lease_that_no_server_took_is_still_ours(action: Action) {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").with_retention(3600)).await;
    t.advance(60 * MINUTE);
    accepted(&t, &run, action).await;
}

async fn an_extended_run_is_still_ours(action: Action) {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").with_retention(3600)).await;
    t.advance(Duration::from_secs(5));
    assert_eq!(t.extend(&run.key).await, Settled::Ok);
    // A second time, as after a lost answer.
    assert_eq!(t.extend(&run.key).await, Settled::Ok);
    accepted(&t, &run, action).await;
}

async fn a_stale_extension_changes_no_lease(action: Action) {
    let (t, late) = lost().await;
    let other = t.another_member(2).await;
    let rightful = t.take_one_as(&other).await;
    let before = t.store.dump();
    assert_eq!(t.extend(&late.key).await, Settled::Fenced);
    assert_eq!(t.store.dump(), before);
    refused(&t, &late, action.clone(), Settled::Fenced).await;
    accepted(&t, &rightful, action).await;
}

async fn requeued_and_run_by_another(action: Action) {
    let t = Fixture::start().await;
    let early = t.start_run(task("t1").with_retention(3600)).await;
    assert_eq!(t.settle(&early, requeue()).await, Settled::Ok);
    let other = t.another_member(2).await;
    let rightful = t.take_one_as(&other).await;
    let before = t.store.dump();
    t.settle(&early, action.clone()).await;
    assert_eq!(t.store.dump(), before);
    accepted(&t, &rightful, action).await;
}

every_outcome! {
    recovered_and_waiting
    recovered_and_run_by_another
    recovered_and_run_by_the_same_member
    recovered_and_done_by_another
    recovered_and_completed_by_another
    recovered_and_failed_by_another
    the_id_is_used_again_and_waits
    the_id_is_used_again_and_runs
    a_lapsed_lease_that_no_server_took_is_still_ours
    an_extended_run_is_still_ours
    a_stale_extension_changes_no_lease
    requeued_and_run_by_another
}

#[tokio::test]
async fn a_stale_outcome_in_a_batch_does_not_hinder_the_others() {
    let (t, late) = lost().await;
    let rightful = t.take_one().await;
    t.seed_pending(&["a", "b"]).await;
    let runs = t.take(2).await;
    let batch = [runs[0].ends_with(done()), late.ends_with(archive("late")), runs[1].ends_with(requeue())];
    let answers: Vec<_> = t.broker().settle(&batch).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers, [Settled::Ok, Settled::Fenced, Settled::Ok]);
    assert_eq!(t.settle(&rightful, done()).await, Settled::Ok);
}

#[tokio::test]
async fn a_guessed_token_opens_nothing() {
    let t = Fixture::start().await;
    let mut run = t.seed_active("t1").await;
    let good = run.key.token.0;
    for token in [good - 1, good + 1, 0, -1, i64::MAX] {
        run.key.token.0 = token;
        assert_eq!(t.settle(&run, done()).await, Settled::Fenced, "{token}");
    }
    assert_eq!(t.snapshot().await.stats.active, 1);
}
