//! Contract `Schedules::tick`: the effect of a tick while the task of the previous one exists, by its real state
//! (docs/design/schedules.md#overlap).

use std::time::Duration;

use asynq_runtime::{
    broker::{Action, BulkAction, Changed, Overlap, Refused, Run, Settled, Tick, Ticked, When},
    task::{Ending, Extra, TaskId, TaskState},
};
use asynq_tests::{
    Build as _, Need, Store as _, archive, complete, default_queue, done, lock_key, requeue, retry, soon, task,
};
use chrono::TimeDelta;

use super::{
    Fixture,
    schedule::{fire, is_enqueued, report, this_second, tick},
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Lets a second pass and returns the tick of the new second.
fn next(t: &Fixture, overlap: Overlap) -> Tick {
    t.advance(SECOND);
    Tick { overlap, ..tick(this_second(t)) }
}

/// Fires a first tick and returns the id of its task.
async fn first(t: &Fixture) -> TaskId {
    first_as(t, |tick| tick).await
}

async fn first_as(t: &Fixture, change: impl FnOnce(Tick) -> Tick) -> TaskId {
    let tick = change(tick(this_second(t)));
    assert!(is_enqueued(&fire(t, &tick).await));
    tick.task.id
}

async fn first_run(t: &Fixture) -> Run {
    first(t).await;
    t.take_one().await
}

/// Asserts that the next two ticks are left out because of `previous`, and that no second send fires them.
async fn is_skipped(t: &Fixture, previous: &TaskId) {
    for _ in 0..2 {
        let tick = next(t, Overlap::Skip);
        let skipped = fire(t, &tick).await;
        assert!(matches!(&skipped, Ticked::Skipped(id) if id == previous), "{skipped:?}");
        let state = t.broker().entry(&default_queue(), &report()).await.unwrap().unwrap();
        assert_eq!((state.last, state.previous.as_ref()), (tick.at, Some(previous)));
        assert!(matches!(fire(t, &tick).await, Ticked::Duplicate));
    }
}

/// Asserts that the previous task does not exist for either policy.
async fn is_not_there(t: &Fixture) {
    let tick = next(t, Overlap::Skip);
    let ticked = fire(t, &tick).await;
    assert!(is_enqueued(&ticked), "{ticked:?}");
}

/// Asserts that the next tick replaces the previous task, which is gone then.
async fn is_replaced(t: &Fixture, previous: &TaskId) {
    let tick = next(t, Overlap::Replace);
    let ticked = fire(t, &tick).await;
    assert!(is_enqueued(&ticked), "there is nothing to cancel: {ticked:?}");
    assert_eq!(t.state_of(previous.as_str()).await, None);
    let left = t.snapshot().await;
    assert_eq!((left.ids(TaskState::Pending), left.stats.active), (vec![tick.task.id.as_str()], 0));
    t.advance(2 * HOUR);
    t.forward().await;
    assert_eq!(t.drain().await, [tick.task.id.to_string()], "and nothing of it comes back");
}

#[tokio::test]
async fn by_default_a_tick_fires_beside_the_previous_task() {
    let t = Fixture::start().await;
    let run = first_run(&t).await;
    assert!(is_enqueued(&fire(&t, &next(&t, Overlap::Allow)).await));
    assert!(is_enqueued(&fire(&t, &next(&t, Overlap::default())).await));
    assert_eq!(t.state_of(run.key.id.as_str()).await, Some(TaskState::Active));
    assert_eq!(t.drain().await.len(), 2);
}

#[tokio::test]
async fn without_a_previous_task_every_policy_fires() {
    for overlap in [Overlap::Allow, Overlap::Skip, Overlap::Replace] {
        let t = Fixture::start().await;
        assert!(is_enqueued(&fire(&t, &next(&t, overlap)).await), "{overlap:?}");
    }
}

#[tokio::test]
async fn skip_leaves_a_tick_out_while_the_previous_task_waits() {
    let t = Fixture::start().await;
    let id = first(&t).await;
    is_skipped(&t, &id).await;
    assert_eq!(t.drain().await, [id.to_string()]);
}

#[tokio::test]
async fn skip_leaves_a_tick_out_while_the_previous_task_runs() {
    let t = Fixture::start().await;
    let run = first_run(&t).await;
    is_skipped(&t, &run.key.id).await;
    assert_eq!(t.settle(&run, done()).await, Settled::Ok);
    is_not_there(&t).await;
}

#[tokio::test]
async fn skip_leaves_a_tick_out_while_the_previous_task_waits_for_its_jitter() {
    let t = Fixture::start().await;
    let id = first_as(&t, |mut tick| {
        tick.task.when = When::At(tick.at + TimeDelta::minutes(5));
        tick
    })
    .await;
    is_skipped(&t, &id).await;
}

#[tokio::test]
async fn skip_leaves_a_tick_out_while_the_previous_task_waits_for_a_retry() {
    let t = Fixture::start().await;
    let run = first_run(&t).await;
    assert_eq!(t.settle(&run, retry(HOUR, "boom")).await, Settled::Ok);
    is_skipped(&t, &run.key.id).await;
}

#[tokio::test]
async fn skip_leaves_a_tick_out_while_the_previous_task_was_requeued() {
    let t = Fixture::start().await;
    let run = first_run(&t).await;
    assert_eq!(t.settle(&run, requeue()).await, Settled::Ok);
    is_skipped(&t, &run.key.id).await;
}

#[tokio::test]
async fn skip_leaves_a_tick_out_while_the_previous_task_is_in_a_group_or_a_set() {
    let t = Fixture::start().await;
    let grouped = |tick: Tick| Tick { task: tick.task.clone().grouped("g"), ..tick };
    let id = first_as(&t, grouped).await;
    is_skipped(&t, &id).await;
    let set = t.claim("g").await;
    is_skipped(&t, &id).await;
    t.finish(&set, &asynq_tests::becomes(Vec::new())).await.unwrap();
    is_not_there(&t).await;
}

#[tokio::test]
async fn an_archived_task_stops_no_schedule() {
    let t = Fixture::start().await;
    let run = first_run(&t).await;
    assert_eq!(t.settle(&run, archive("fatal")).await, Settled::Ok);
    is_not_there(&t).await;
    assert_eq!(t.state_of(run.key.id.as_str()).await, Some(TaskState::Archived));
}

#[tokio::test]
async fn a_completed_task_stops_no_schedule() {
    let t = Fixture::start().await;
    first_as(&t, |tick| Tick { task: tick.task.clone().with_retention(3600), ..tick }).await;
    let run = t.take_one().await;
    assert_eq!(t.settle(&run, complete("42")).await, Settled::Ok);
    is_not_there(&t).await;
    assert_eq!(t.state_of(run.key.id.as_str()).await, Some(TaskState::Completed));
}

#[tokio::test]
async fn a_deleted_task_stops_no_schedule() {
    let t = Fixture::start().await;
    let id = first(&t).await;
    t.broker().change_task(&default_queue(), &id, None, BulkAction::Delete).await.unwrap();
    is_not_there(&t).await;
}

/// A lapsed lease leaves open whether the task will be recovered or its worker is still running it.
#[tokio::test]
async fn skip_leaves_a_tick_out_while_the_lease_of_the_previous_task_is_past() {
    let t = Fixture::start().await;
    let run = first_run(&t).await;
    t.let_leases_pass();
    is_skipped(&t, &run.key.id).await;
    assert_eq!(t.recover().await, [run.key.id.to_string()]);
    is_skipped(&t, &run.key.id).await;
    assert_eq!(t.drain().await, [run.key.id.to_string()]);
}

#[tokio::test]
async fn a_task_that_was_lost_stops_no_schedule() {
    let t = Fixture::start().await;
    if t.lacks(Need::Ghosts) {
        return;
    }
    let id = first(&t).await;
    t.store.make_ghost(&default_queue(), &id);
    is_not_there(&t).await;
}

#[tokio::test]
async fn skip_leaves_a_tick_out_while_the_previous_task_runs_without_a_lease() {
    let t = Fixture::start().await;
    if t.lacks(Need::LostLease) {
        return;
    }
    let run = first_run(&t).await;
    t.store.lose_lease(&default_queue(), &run.key.id);
    is_skipped(&t, &run.key.id).await;
    t.broker().sweep(&default_queue()).await.unwrap();
    is_skipped(&t, &run.key.id).await;
}

#[tokio::test]
async fn a_task_that_a_go_program_runs_is_asked_to_stop_until_gos_own_grace_is_over() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    let id = first(&t).await;
    assert_eq!(go.dequeue(t.now().timestamp() + 30), id.as_str());
    is_skipped(&t, &id).await;
    t.advance(Duration::from_secs(40));
    is_skipped(&t, &id).await;
    let replacement = next(&t, Overlap::Replace);
    assert!(is_enqueued(&fire(&t, &replacement).await));
    assert_eq!(t.state_of(id.as_str()).await, Some(TaskState::Active), "Go may run it yet");

    let t = Fixture::start().await;
    let id = first(&t).await;
    assert_eq!(t.store.go().unwrap().dequeue(t.now().timestamp() + 30), id.as_str());
    t.advance(Duration::from_secs(60));
    is_replaced(&t, &id).await;
}

#[tokio::test]
async fn replace_deletes_a_task_that_waits() {
    let t = Fixture::start().await;
    let id = first(&t).await;
    is_replaced(&t, &id).await;
}

#[tokio::test]
async fn replace_deletes_a_task_that_waits_for_its_jitter() {
    let t = Fixture::start().await;
    let id = first_as(&t, |mut tick| {
        tick.task.when = When::At(tick.at + TimeDelta::minutes(5));
        tick
    })
    .await;
    is_replaced(&t, &id).await;
}

#[tokio::test]
async fn replace_deletes_a_task_that_waits_for_a_retry() {
    let t = Fixture::start().await;
    let run = first_run(&t).await;
    assert_eq!(t.settle(&run, retry(HOUR, "boom")).await, Settled::Ok);
    is_replaced(&t, &run.key.id).await;
}

#[tokio::test]
async fn replace_deletes_a_task_that_waits_in_a_group_and_the_empty_group_with_it() {
    let t = Fixture::start().await;
    let id = first_as(&t, |tick| Tick { task: tick.task.clone().grouped("g"), ..tick }).await;
    is_replaced(&t, &id).await;
    assert!(t.group_sizes().await.is_empty());
}

/// Its server makes a task of it now, and could not end the set without it.
#[tokio::test]
async fn replace_leaves_a_task_in_a_set_to_its_holder() {
    let t = Fixture::start().await;
    let id = first_as(&t, |tick| Tick { task: tick.task.clone().grouped("g"), ..tick }).await;
    let set = t.claim("g").await;
    let tick = next(&t, Overlap::Replace);
    assert!(is_enqueued(&fire(&t, &tick).await));
    assert_eq!(t.state_of(id.as_str()).await, Some(TaskState::Aggregating));
    t.finish(&set, &asynq_tests::becomes(vec![asynq_tests::made(&set, 0)])).await.unwrap();
    assert_eq!(t.drain().await, [tick.task.id.to_string(), set.task_id(0).to_string()]);
}

#[tokio::test]
async fn replace_leaves_the_others_of_a_group_alone() {
    let t = Fixture::start().await;
    let id = first_as(&t, |tick| Tick { task: tick.task.clone().grouped("g"), ..tick }).await;
    t.enqueue(task("other").grouped("g")).await;
    is_replaced(&t, &id).await;
    assert_eq!(t.group_sizes().await, [("g".to_owned(), 1)]);
}

#[tokio::test]
async fn replace_asks_a_running_task_to_stop() {
    let t = Fixture::start().await;
    let mut requests = t.broker().cancellations().await.unwrap();
    let run = first_run(&t).await;
    let tick = next(&t, Overlap::Replace);
    assert!(is_enqueued(&fire(&t, &tick).await));
    assert_eq!(soon(requests.next()).await.unwrap(), run.key.id);
    assert_eq!(t.state_of(run.key.id.as_str()).await, Some(TaskState::Active), "it ends by itself");
    // The replaced run may still end as a success.
    assert_eq!(t.settle(&run, done()).await, Settled::Ok);
    assert_eq!(t.drain().await, [tick.task.id.to_string()]);
}

#[tokio::test]
async fn a_replaced_task_ends_with_its_run_in_any_outcome() {
    for action in [retry(HOUR, "canceled"), archive("canceled"), requeue()] {
        let t = Fixture::start().await;
        first_as(&t, |tick| locked(Tick { task: tick.task.clone(), ..tick })).await;
        let run = t.take_one().await;
        let tick = next(&t, Overlap::Replace);
        assert!(is_enqueued(&fire(&t, &tick).await));
        assert_eq!(t.settle(&run, action.clone()).await, Settled::Ok, "{action:?}");
        assert_eq!(t.state_of(run.key.id.as_str()).await, None, "{action:?}");
        assert_eq!(t.holder_of(&lock_key("k")).await, None, "{action:?}: its lock goes with it");
        t.advance(2 * HOUR);
        t.forward().await;
        assert_eq!(t.drain().await, [tick.task.id.to_string()], "{action:?}: it does not come back");
        let snapshot = t.snapshot().await;
        for state in [TaskState::Pending, TaskState::Retry, TaskState::Archived] {
            assert_eq!(snapshot.ids(state), [""; 0], "{action:?}");
        }
        assert_eq!(snapshot.ids(TaskState::Active), [tick.task.id.as_str()], "{action:?}");
        let stats = t.broker().queue_stats(&default_queue()).await.unwrap();
        assert_eq!(stats.failed, u64::from(!matches!(action, Action::Requeue)), "{action:?}");
    }
}

#[tokio::test]
async fn a_replaced_run_that_is_revoked_is_kept_for_its_waiters() {
    let t = Fixture::start().await;
    first_as(&t, |tick| Tick { task: tick.task.clone().with_retention(90), ..tick }).await;
    let run = t.take_one().await;
    assert!(is_enqueued(&fire(&t, &next(&t, Overlap::Replace)).await));
    let revoke = Action::Revoke { extra: Extra { ending: Ending::Revoked.into(), ..Extra::default() } };
    assert_eq!(t.settle(&run, revoke).await, Settled::Ok);
    assert_eq!(t.state_of(run.key.id.as_str()).await, Some(TaskState::Completed));
}

/// A replaced run may still succeed. An operator who runs its task again means that one run.
#[tokio::test]
async fn a_replaced_task_that_completed_can_be_run_again() {
    let t = Fixture::start().await;
    let id = first_as(&t, |tick| Tick { task: tick.task.clone().with_retention(3600), ..tick }).await;
    let run = t.take_one().await;
    let tick = next(&t, Overlap::Replace);
    assert!(is_enqueued(&fire(&t, &tick).await));
    assert_eq!(t.settle(&run, complete("42")).await, Settled::Ok);
    assert_eq!(t.drain().await, [tick.task.id.to_string()]);
    assert_eq!(t.broker().change_task(&default_queue(), &id, None, BulkAction::Run).await.unwrap(), Changed::Done);
    let again = t.take_one().await;
    assert_eq!((&again.key.id, again.extra.replaced), (&id, false));
    assert_eq!(t.settle(&again, requeue()).await, Settled::Ok);
    assert_eq!(t.drain().await, [id.to_string()], "it is not deleted without a run");
}

#[tokio::test]
async fn a_task_that_is_replaced_in_a_further_run_ends_with_it() {
    let t = Fixture::start().await;
    let id = first_as(&t, |tick| Tick { task: tick.task.clone().with_retention(3600), ..tick }).await;
    let run = t.take_one().await;
    assert_eq!(t.settle(&run, complete("42")).await, Settled::Ok);
    assert_eq!(t.broker().change_task(&default_queue(), &id, None, BulkAction::Run).await.unwrap(), Changed::Done);
    let again = t.take_one().await;
    let tick = next(&t, Overlap::Replace);
    assert!(is_enqueued(&fire(&t, &tick).await));
    assert_eq!(t.settle(&again, requeue()).await, Settled::Ok);
    assert_eq!(t.drain().await, [tick.task.id.to_string()]);
    assert_eq!(t.state_of(id.as_str()).await, None);
}

#[tokio::test]
async fn a_replaced_task_whose_worker_dies_ends_before_it_is_started_again() {
    let t = Fixture::start().await;
    let run = first_run(&t).await;
    assert!(!run.extra.replaced);
    let tick = next(&t, Overlap::Replace);
    assert!(is_enqueued(&fire(&t, &tick).await));
    t.let_leases_pass();
    assert_eq!(t.recover().await, [run.key.id.as_str()]);
    let again = t.take(1).await.remove(0);
    assert_eq!(again.key.id, run.key.id, "it is at the head");
    // A server requeues such a run at once, and that ends the task.
    assert!(again.extra.replaced);
    assert_eq!(t.settle(&again, requeue()).await, Settled::Ok);
    assert_eq!(t.drain().await, [tick.task.id.to_string()]);
}

#[tokio::test]
async fn replace_deletes_a_task_whose_worker_died() {
    let t = Fixture::start().await;
    let run = first_run(&t).await;
    t.let_leases_pass();
    is_replaced(&t, &run.key.id).await;
    assert!(t.recover().await.is_empty());
    assert_ne!(t.settle(&run, done()).await, Settled::Ok, "a worker that was only slow has lost it");
}

#[tokio::test]
async fn a_task_takes_over_the_lock_of_one_whose_worker_died() {
    let t = Fixture::start().await;
    first_as(&t, locked).await;
    t.take_one().await;
    t.let_leases_pass();
    let tick = locked(next(&t, Overlap::Replace));
    assert!(is_enqueued(&fire(&t, &tick).await));
    assert_eq!(t.holder_of(&lock_key("k")).await, Some(tick.task.id.clone()));
    assert!(t.recover().await.is_empty());
    assert_eq!(t.drain().await, [tick.task.id.to_string()]);
}

#[tokio::test]
async fn replace_touches_nothing_that_has_ended() {
    for action in [archive("fatal"), complete("42")] {
        let t = Fixture::start().await;
        first_as(&t, |tick| Tick { task: tick.task.clone().with_retention(3600), ..tick }).await;
        let run = t.take_one().await;
        assert_eq!(t.settle(&run, action).await, Settled::Ok);
        assert!(is_enqueued(&fire(&t, &next(&t, Overlap::Replace)).await));
        assert!(t.state_of(run.key.id.as_str()).await.is_some());
    }
}

fn locked(tick: Tick) -> Tick {
    Tick { task: tick.task.clone().locked(&lock_key("k"), 600), ..tick }
}

#[tokio::test]
async fn a_task_takes_over_the_lock_of_the_one_that_it_replaces() {
    let t = Fixture::start().await;
    first_as(&t, locked).await;
    let tick = locked(next(&t, Overlap::Replace));
    assert!(is_enqueued(&fire(&t, &tick).await));
    assert_eq!(t.holder_of(&lock_key("k")).await, Some(tick.task.id.clone()));
    assert_eq!(t.drain().await, [tick.task.id.to_string()]);
}

#[tokio::test]
async fn the_lock_of_a_replaced_task_is_freed() {
    let t = Fixture::start().await;
    first_as(&t, locked).await;
    assert!(is_enqueued(&fire(&t, &next(&t, Overlap::Replace)).await));
    assert_eq!(t.holder_of(&lock_key("k")).await, None);
}

#[tokio::test]
async fn a_lock_that_another_took_over_is_not_freed_by_a_replacement() {
    let t = Fixture::start().await;
    first_as(&t, |tick| Tick { task: tick.task.clone().locked(&lock_key("k"), 1), ..tick }).await;
    t.advance(2 * SECOND);
    t.enqueue(task("holder").locked(&lock_key("k"), 600)).await;
    assert!(is_enqueued(&fire(&t, &next(&t, Overlap::Replace)).await));
    assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "holder");
}

#[tokio::test]
async fn a_tick_that_is_refused_replaces_nothing() {
    let t = Fixture::start().await;
    let id = first(&t).await;
    t.enqueue(task("holder").locked(&lock_key("k"), 600)).await;
    let refused = fire(&t, &locked(next(&t, Overlap::Replace))).await;
    assert!(matches!(refused, Ticked::Refused(Refused::Duplicate { .. })), "{refused:?}");
    assert_eq!(t.drain().await, [id.to_string(), "holder".to_owned()]);
}

#[tokio::test]
async fn a_running_task_that_holds_the_lock_cannot_be_replaced() {
    let t = Fixture::start().await;
    first_as(&t, locked).await;
    let run = t.take_one().await;
    let refused = fire(&t, &locked(next(&t, Overlap::Replace))).await;
    assert!(
        matches!(&refused, Ticked::Refused(Refused::Duplicate { holder: Some(id) }) if *id == run.key.id),
        "{refused:?}"
    );
    assert_eq!(t.settle(&run, done()).await, Settled::Ok);
    assert!(is_enqueued(&fire(&t, &locked(next(&t, Overlap::Replace))).await));
}

#[tokio::test]
async fn a_replacement_that_is_sent_again_replaces_nothing_more() {
    let t = Fixture::start().await;
    first(&t).await;
    let tick = next(&t, Overlap::Replace);
    assert!(is_enqueued(&fire(&t, &tick).await));
    assert!(matches!(fire(&t, &tick).await, Ticked::Duplicate));
    assert_eq!(t.drain().await, [tick.task.id.to_string()]);
}
