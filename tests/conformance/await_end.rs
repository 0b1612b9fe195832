//! Waiting for the end of a task, and until queues are idle, without polling.
//!
//! As in `wake.rs`, `LONG` is far beyond the patience of `soon`: only a write can have ended such a wait.

use std::{future::Future, sync::Arc, time::Duration};

use asynq_runtime::{
    broker::{Action, Broker, BrokerError, BulkAction, Changed, GroupRules, NewTask, SetOutcome, TaskEnd},
    task::{Ending, Extra, TaskInfo, TaskState},
};
use asynq_tests::{
    Build as _, archive, archive_with, complete, default_queue, done, eventually, queue, requeue, retry, soon, task,
    task_id,
};
use tokio::{task::JoinHandle, time::timeout};

use super::Fixture;

const LONG: Duration = Duration::from_secs(3600);
/// A wait that outlasts this has most likely read the task; a case that needs certainty tries again.
const A_MOMENT: Duration = Duration::from_millis(50);

/// Calls `wait`, and again where the machine stood still, so that there was no answer within a short limit.
async fn answered<T>(limit: Duration, wait: impl AsyncFn() -> Result<T, BrokerError>) -> T {
    let answer = async || match wait().await {
        Err(error) if error.is_unavailable() && limit < Duration::from_secs(1) => None,
        answer => Some(answer.unwrap()),
    };
    eventually("the broker answers within the limit", answer).await
}

async fn end_of(broker: &dyn Broker, id: &str, limit: Duration) -> TaskEnd {
    answered(limit, async || broker.wait_for_end(&default_queue(), &task_id(id), limit).await).await
}

/// Starts to wait for the end of a task that has not ended yet.
async fn waiting(broker: &Arc<dyn Broker>, id: &str) -> JoinHandle<TaskEnd> {
    let first = end_of(&**broker, id, Duration::ZERO).await;
    assert!(matches!(first, TaskEnd::NotYet(_)), "{first:?}");
    let (broker, id) = (broker.clone(), task_id(id));
    let handle = tokio::spawn(async move { broker.wait_for_end(&default_queue(), &id, LONG).await.unwrap() });
    tokio::task::yield_now().await;
    handle
}

async fn ended(waiter: JoinHandle<TaskEnd>) -> TaskEnd {
    soon(waiter).await.unwrap()
}

fn ended_task(end: TaskEnd) -> TaskInfo {
    match end {
        TaskEnd::Stored(task) => *task,
        other => panic!("it should be kept: {other:?}"),
    }
}

fn awaited(id: &str) -> NewTask {
    task(id).with_retention(60).with_extra(Extra { awaited: true, ..Extra::default() })
}

fn ending(ending: Ending) -> Extra {
    Extra { awaited: true, ending: ending.into(), ..Extra::default() }
}

#[tokio::test]
async fn a_waiting_caller_gets_the_result_of_a_success() {
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    let run = t.start_run(awaited("t1")).await;
    let waiters = [waiting(&t.shared(), "t1").await, waiting(&t.shared(), "t1").await, waiting(&there, "t1").await];
    t.settle(&run, complete("240")).await;
    for waiter in waiters {
        let task = ended_task(ended(waiter).await);
        assert_eq!((task.state, task.ending), (TaskState::Completed, Ending::Plain));
        assert_eq!(task.result.as_deref(), Some(&b"240"[..]));
    }
}

#[tokio::test]
async fn a_waiting_caller_is_notified_of_each_kind_of_end() {
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    let revoke = Action::Revoke { extra: ending(Ending::Revoked) };
    let expire = archive_with("expired: not started", ending(Ending::Expired));
    for (id, action, state, how) in [
        ("archived", archive("boom"), TaskState::Archived, Ending::Plain),
        ("revoked", revoke, TaskState::Completed, Ending::Revoked),
        ("expired", expire, TaskState::Archived, Ending::Expired),
    ] {
        let run = t.start_run(awaited(id)).await;
        let waiters = [waiting(&t.shared(), id).await, waiting(&there, id).await];
        t.settle(&run, action).await;
        for waiter in waiters {
            let task = ended_task(ended(waiter).await);
            assert_eq!((task.state, task.ending), (state, how), "{id}");
        }
    }
}

#[tokio::test]
async fn an_end_that_leaves_nothing_is_reported_as_such() {
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    for id in ["t1", "t2"] {
        let run = t.start_run(task(id)).await;
        let waiters = [waiting(&t.shared(), id).await, waiting(&there, id).await];
        t.settle(&run, done()).await;
        for waiter in waiters {
            assert_eq!(ended(waiter).await, TaskEnd::Gone);
        }
    }
}

#[tokio::test]
async fn a_wait_that_is_not_polled_delays_no_other() {
    let t = Fixture::real_time().await;
    let (first, second) = (t.start_run(awaited("t1")).await, t.start_run(awaited("t2")).await);
    let (queue, id) = (default_queue(), task_id("t1"));
    let mut unpolled = t.broker().wait_for_end(&queue, &id, LONG);
    assert!(timeout(A_MOMENT, &mut unpolled).await.is_err(), "no worker has ended it yet");
    let other = waiting(&t.shared(), "t2").await;
    t.settle(&second, complete("2")).await;
    assert_eq!(ended_task(ended(other).await).result.as_deref(), Some(&b"2"[..]));
    t.settle(&first, complete("1")).await;
    assert_eq!(ended_task(soon(unpolled).await.unwrap()).result.as_deref(), Some(&b"1"[..]));
}

/// Waits for the end of a task, and calls `change` as soon as the wait has most likely read the task.
async fn during_a_wait<C: Future<Output = ()>>(broker: &dyn Broker, id: &str, change: impl FnOnce() -> C) -> TaskEnd {
    let (queue, id) = (default_queue(), task_id(id));
    let mut wait = broker.wait_for_end(&queue, &id, LONG);
    assert!(timeout(A_MOMENT, &mut wait).await.is_err(), "no worker has ended it yet");
    change().await;
    soon(wait).await.unwrap()
}

#[tokio::test]
async fn an_awaited_task_deleted_during_a_wait_is_deleted_and_any_other_is_gone() {
    let t = Fixture::real_time().await;
    for (expected, make) in [(TaskEnd::Deleted, awaited as fn(&str) -> NewTask), (TaskEnd::Gone, task)] {
        // On a machine that stops for a moment the wait may not have read the task before it is deleted.
        let mut round = 0;
        eventually("the wait saw the task before", async || {
            round += 1;
            let id = format!("{expected:?}{round}");
            t.enqueue(make(&id)).await;
            let deleted = async || {
                let deleted =
                    t.broker().change_task(&default_queue(), &task_id(&id), None, BulkAction::Delete).await.unwrap();
                assert_eq!(deleted, Changed::Done);
            };
            (during_a_wait(t.broker(), &id, deleted).await == expected).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_task_that_waits_for_its_next_attempt_has_not_ended() {
    let t = Fixture::real_time().await;
    let run = t.start_run(awaited("t1")).await;
    let waiter = waiting(&t.shared(), "t1").await;
    t.settle(&run, requeue()).await;
    let run = t.take_one().await;
    t.settle(&run, retry(Duration::ZERO, "boom")).await;
    soon(async {
        while t.forward().await == 0 {
            t.broker().wait_for_due(&[default_queue()], LONG).await.unwrap();
        }
    })
    .await;
    let run = t.take_one().await;
    t.settle(&run, complete("at last")).await;
    assert_eq!(ended_task(ended(waiter).await).result.as_deref(), Some(&b"at last"[..]));
}

#[tokio::test]
async fn an_end_that_was_before_is_reported_at_once() {
    let t = Fixture::real_time().await;
    t.seed_completed("done", 60).await;
    t.seed_archived("archived").await;
    for limit in [Duration::ZERO, LONG] {
        assert_eq!(ended_task(end_of(t.broker(), "done", limit).await).state, TaskState::Completed);
        assert_eq!(ended_task(end_of(t.broker(), "archived", limit).await).state, TaskState::Archived);
        assert_eq!(end_of(t.broker(), "never", limit).await, TaskEnd::Gone);
        let (elsewhere, id) = (queue("none"), task_id("done"));
        assert_eq!(soon(t.broker().wait_for_end(&elsewhere, &id, limit)).await.unwrap(), TaskEnd::Gone);
    }
}

#[tokio::test]
async fn a_wait_that_is_over_says_where_the_task_is() {
    let t = Fixture::real_time().await;
    t.seed_scheduled("scheduled", LONG).await;
    t.seed_retry("retry", LONG).await;
    t.seed_active("active").await;
    t.seed_pending(&["pending"]).await;
    t.seed_group("g", &["aggregating"]).await;
    for (id, state) in [
        ("scheduled", TaskState::Scheduled),
        ("retry", TaskState::Retry),
        ("active", TaskState::Active),
        ("pending", TaskState::Pending),
        ("aggregating", TaskState::Aggregating),
    ] {
        for limit in [Duration::ZERO, A_MOMENT] {
            assert_eq!(end_of(t.broker(), id, limit).await, TaskEnd::NotYet(state), "{id}");
        }
    }
}

#[tokio::test]
async fn of_many_waiters_each_is_notified_of_its_own_task() {
    const TASKS: usize = 300;
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    let ids: Vec<String> = (0..TASKS).map(|n| format!("t{n:03}")).collect();
    for slice in ids.chunks(100) {
        for outcome in t.broker().enqueue(slice.iter().map(|id| awaited(id)).collect()).await {
            outcome.unwrap();
        }
    }
    let runs = t.take_exactly(TASKS).await;
    let mut waiters = Vec::new();
    for id in &ids {
        let (there, id) = (there.clone(), task_id(id));
        waiters.push(tokio::spawn(async move { there.wait_for_end(&default_queue(), &id, LONG).await.unwrap() }));
    }
    // Some waits are dropped; they do not delay the others.
    for (n, waiter) in waiters.iter().enumerate() {
        if n % 10 == 0 {
            waiter.abort();
        }
    }
    for run in &runs {
        t.settle(run, complete(run.key.id.as_str())).await;
    }
    for (n, (waiter, id)) in waiters.into_iter().zip(&ids).enumerate() {
        if n % 10 > 0 {
            assert_eq!(ended_task(ended(waiter).await).result.as_deref(), Some(id.as_bytes()));
        }
    }
}

#[tokio::test]
async fn a_go_worker_ends_a_wait_as_well() {
    let t = Fixture::real_time().await;
    let Some(go) = t.go() else { return };
    let message = awaited("t1").message;
    let now = t.now().timestamp();
    go.enqueue(&message, t.now().timestamp_nanos_opt().unwrap());
    let waiter = waiting(&t.shared(), "t1").await;
    assert_eq!(go.dequeue(now + 30), "t1");
    go.complete(&message, now, now + 60);
    let task = ended_task(ended(waiter).await);
    assert_eq!((task.state, task.result), (TaskState::Completed, None));

    go.enqueue(&task_message("t2"), t.now().timestamp_nanos_opt().unwrap());
    let waiter = waiting(&t.shared(), "t2").await;
    assert_eq!(go.dequeue(now + 30), "t2");
    go.done("t2");
    assert_eq!(ended(waiter).await, TaskEnd::Gone);
}

#[tokio::test]
async fn a_revoked_task_that_a_go_tool_runs_again_has_a_new_end() {
    let t = Fixture::real_time().await;
    let Some(go) = t.go() else { return };
    let run = t.start_run(awaited("t1")).await;
    t.settle(&run, Action::Revoke { extra: ending(Ending::Revoked) }).await;
    go.run("completed", "t1");
    let again = t.take_one().await;
    t.settle(&again, complete("7")).await;
    let task = ended_task(end_of(t.broker(), "t1", Duration::ZERO).await);
    assert_eq!((task.ending, task.result.as_deref()), (Ending::Plain, Some(&b"7"[..])));
}

fn task_message(id: &str) -> asynq_runtime::task::TaskMessage {
    task(id).message
}

#[tokio::test]
async fn a_task_is_found_in_any_of_the_queues() {
    let t = Fixture::start().await;
    for name in ["a", "b", "c"] {
        t.enqueue(task("other").in_queue(name)).await;
    }
    t.enqueue(task("t1").in_queue("c")).await;
    t.enqueue(task("t1").in_queue("a")).await;
    assert_eq!(t.broker().queues_of(&task_id("t1")).await.unwrap(), [queue("a"), queue("c")]);
    assert!(t.broker().queues_of(&task_id("none")).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_wait_for_idle_queues_ends_when_the_last_task_has_ended() {
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    let queues = [default_queue(), queue("low")];
    let idle =
        async |broker: &dyn Broker, limit| answered(limit, async || broker.wait_until_idle(&queues, limit).await).await;
    assert!(idle(t.broker(), Duration::ZERO).await);
    t.seed_completed("kept", 60).await;
    t.seed_archived("archived").await;
    assert!(idle(t.broker(), Duration::ZERO).await, "an ended task is not awaited");

    for place in 0..5 {
        let id = format!("t{place}");
        match place {
            0 => t.seed_pending(&[&id]).await,
            1 => t.seed_scheduled(&id, LONG).await,
            2 => t.seed_group("g", &[&id]).await,
            3 => t.seed_pending(&[&id]).await,
            _ => drop(t.enqueue(task(&id).in_queue("low")).await),
        }
        for limit in [Duration::ZERO, A_MOMENT] {
            assert!(!idle(t.broker(), limit).await, "{id}");
        }
        let home = if place == 4 { &queues[1] } else { &queues[0] };
        let remove = async {
            tokio::time::sleep(A_MOMENT).await;
            match place {
                3 => drop(t.broker().move_task(home, &task_id(&id), &queue("third")).await.unwrap()),
                _ => drop(t.broker().change_task(home, &task_id(&id), None, BulkAction::Delete).await.unwrap()),
            }
        };
        let (here, elsewhere, ()) = tokio::join!(idle(t.broker(), LONG), idle(&*there, LONG), remove);
        assert!(here && elsewhere, "{id}");
    }
}

#[tokio::test]
async fn a_queue_is_not_idle_while_a_set_of_its_tasks_is_aggregated() {
    let t = Fixture::real_time().await;
    let here = [default_queue()];
    let idle = async |limit| soon(t.broker().wait_until_idle(&here, limit)).await.unwrap();
    t.seed_group("g", &["t1"]).await;
    let full = GroupRules { max_size: Some(1), ..GroupRules::default() };
    let set = t.try_claim("g", &full).await.unwrap();
    assert!(!idle(Duration::ZERO).await);
    t.finish(&set, &SetOutcome::default()).await.unwrap();
    assert!(idle(LONG).await);
}

#[tokio::test]
async fn a_queue_is_not_idle_while_its_task_goes_from_one_place_to_another() {
    let t = Fixture::real_time().await;
    t.seed_pending(&["t1"]).await;
    let moving = async {
        for _ in 0..100 {
            let run = t.take_one().await;
            tokio::task::yield_now().await;
            t.settle(&run, requeue()).await;
        }
    };
    let here = [default_queue()];
    let idle = async { soon(t.broker().wait_until_idle(&here, LONG)).await.unwrap() };
    tokio::select! {
        biased;
        was_idle = idle => panic!("it was never idle: {was_idle}"),
        () = moving => {}
    }
}

#[tokio::test]
async fn a_task_that_a_person_runs_again_has_neither_its_earlier_end_nor_an_expiry_that_has_passed() {
    let t = Fixture::real_time().await;
    let revoke = Action::Revoke { extra: ending(Ending::Revoked) };
    let expired = |at| archive_with("expired: not started", Extra { expires_ms: Some(at), ..ending(Ending::Expired) });
    for (id, action, end) in [
        ("revoked", revoke, Ending::Revoked),
        ("expired", expired(1), Ending::Expired),
        ("before-1970", expired(-1), Ending::Expired),
    ] {
        let run = t.start_run(awaited(id)).await;
        t.settle(&run, action).await;
        assert_eq!(ended_task(end_of(&*t.shared(), id, Duration::ZERO).await).ending, end, "{id}");
        assert_eq!(
            t.broker().change_task(&default_queue(), &task_id(id), None, BulkAction::Run).await.unwrap(),
            Changed::Done,
            "{id}"
        );
        let pending = t.info(id).await.unwrap();
        assert_eq!(pending.expires, None, "{id}");
        let again = t.take_one().await;
        assert!(!again.extra.is_expired(t.broker().now().timestamp_millis()), "{id}");
        t.settle(&again, complete("7")).await;
        let task = ended_task(end_of(&*t.shared(), id, Duration::ZERO).await);
        assert_eq!((task.ending, task.result.as_deref()), (Ending::Plain, Some(&b"7"[..])), "{id}");
    }
}
