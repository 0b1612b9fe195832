//! Repairs of one task: found, run, archived, deleted, moved and cancelled, or refused with a reason.

use std::time::Duration;

use asynq_runtime::{
    Inspector, TaskState,
    broker::TaskSet,
    inspector::{InspectError, TaskChange},
};
use asynq_tests::{Build as _, Store as _, eventually, lock_key, polled, queue, retry, task, task_id};

use super::Fixture;

const HOUR: Duration = Duration::from_secs(3600);

/// The state of a task; `None` if the task does not exist.
async fn state(inspector: &Inspector, id: &str) -> Option<TaskState> {
    match inspector.task("default", id).await {
        Ok(task) => Some(task.state),
        Err(InspectError::TaskNotFound { .. }) => None,
        Err(other) => panic!("{id}: {other}"),
    }
}

/// A fixture with one task in each state, named after its state.
async fn every_state() -> (Fixture, Inspector) {
    let t = Fixture::start().await;
    t.seed_every_state().await;
    let mut grouped = task("aggregating");
    grouped.group = Some(asynq_runtime::task::GroupName::from_wire("g"));
    grouped.message.group_key = "g".into();
    t.enqueue(grouped).await;
    let inspector = Inspector::new(t.shared());
    (t, inspector)
}

#[tokio::test]
async fn a_task_is_found_in_every_state() {
    let (_t, inspector) = every_state().await;
    for expected in TaskState::ALL {
        let task = inspector.task("default", expected.as_str()).await.unwrap();
        assert_eq!((task.state, task.r#type.as_str()), (expected, "email:send"));
    }
    let error = inspector.task("default", "none").await.unwrap_err();
    assert_eq!(error.to_string(), "task `none` was not found in queue `default`");
    assert!(error.is_not_found());
}

#[tokio::test]
async fn a_runnable_task_becomes_pending_and_others_are_refused_with_the_reason() {
    let (_t, inspector) = every_state().await;
    for from in TaskState::ALL {
        let answer = inspector.run("default", from.as_str()).await;
        match from {
            TaskState::Active | TaskState::Pending => {
                let error = answer.unwrap_err();
                let unfit =
                    matches!(error, InspectError::Unfit { change: TaskChange::Run, state, .. } if state == from);
                assert!(unfit && error.to_string().ends_with("already"), "{error}");
                assert_eq!(state(&inspector, from.as_str()).await, Some(from));
            }
            _ => {
                answer.unwrap();
                assert_eq!(state(&inspector, from.as_str()).await, Some(TaskState::Pending), "{from}");
            }
        }
    }
    assert!(matches!(inspector.run("default", "none").await, Err(InspectError::TaskNotFound { .. })));
}

#[tokio::test]
async fn an_archivable_task_is_archived_and_others_are_refused_with_the_reason() {
    let (_t, inspector) = every_state().await;
    for from in TaskState::ALL {
        let answer = inspector.archive("default", from.as_str()).await;
        match from {
            TaskState::Active | TaskState::Archived => {
                assert!(
                    matches!(answer, Err(InspectError::Unfit { change: TaskChange::Archive, state, .. }) if state == from)
                );
                assert_eq!(state(&inspector, from.as_str()).await, Some(from));
            }
            _ => {
                answer.unwrap();
                assert_eq!(state(&inspector, from.as_str()).await, Some(TaskState::Archived), "{from}");
            }
        }
    }
    assert!(matches!(inspector.archive("default", "none").await, Err(InspectError::TaskNotFound { .. })));
}

#[tokio::test]
async fn everything_but_a_running_task_can_be_deleted() {
    let (_t, inspector) = every_state().await;
    for from in TaskState::ALL {
        let answer = inspector.delete("default", from.as_str()).await;
        if from == TaskState::Active {
            let text = answer.unwrap_err().to_string();
            assert_eq!(text, "cannot delete task `active`: it is running; cancel it instead, or wait for its end");
            assert_eq!(state(&inspector, from.as_str()).await, Some(from));
        } else {
            answer.unwrap();
            assert_eq!(state(&inspector, from.as_str()).await, None, "{from}");
        }
    }
    assert!(matches!(inspector.delete("default", "none").await, Err(InspectError::TaskNotFound { .. })));
}

#[tokio::test]
async fn a_task_moves_to_another_queue_in_its_state() {
    let (_t, inspector) = every_state().await;
    for from in TaskState::ALL {
        let answer = inspector.move_to("default", from.as_str(), "other").await;
        if matches!(from, TaskState::Active | TaskState::Completed) {
            assert!(
                matches!(answer, Err(InspectError::Unfit { change: TaskChange::Move, state, .. }) if state == from)
            );
            assert_eq!(state(&inspector, from.as_str()).await, Some(from));
        } else {
            answer.unwrap();
            assert_eq!(state(&inspector, from.as_str()).await, None, "{from}");
            assert_eq!(inspector.task("other", from.as_str()).await.unwrap().state, from);
        }
    }
}

#[tokio::test]
async fn a_move_goes_on_although_its_caller_stops_waiting() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    t.enqueue(task("t1")).await;
    let answer = polled(inspector.move_to("default", "t1", "other"), 1).await;
    assert!(answer.is_none(), "the caller is gone before the broker has answered: {answer:?}");
    let moved = async || inspector.task("other", "t1").await.ok().filter(|task| task.state == TaskState::Pending);
    eventually("the task has moved", moved).await;
    assert_eq!(state(&inspector, "t1").await, None, "the old queue has no copy");
}

#[tokio::test]
async fn a_move_that_cannot_be_changes_nothing() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    t.enqueue(task("t1")).await;
    t.enqueue(task("t1").in_queue("other")).await;
    let error = inspector.move_to("default", "t1", "other").await.unwrap_err();
    assert_eq!(error.to_string(), "task id `t1` is taken in queue `other`");
    let error = inspector.move_to("default", "t1", "a{b}").await.unwrap_err();
    assert!(matches!(error, InspectError::Name(_)), "{error}");
    inspector.move_to("default", "t1", "default").await.unwrap();
    assert!(matches!(inspector.move_to("default", "none", "other").await, Err(InspectError::TaskNotFound { .. })));
    assert_eq!(state(&inspector, "t1").await, Some(TaskState::Pending));

    t.enqueue(task("locked").locked(&lock_key("a"), 60)).await;
    let other = "asynq:{other}:unique:email:send:a";
    t.enqueue(task("holder").in_queue("other").locked(other, 60)).await;
    let error = inspector.move_to("default", "locked", "other").await.unwrap_err();
    assert!(matches!(&error, InspectError::Duplicate { holder: Some(id) } if id == "holder"), "{error}");
    assert_eq!(error.to_string(), "an equal task already holds the unique lock (id holder)");
    assert_eq!(state(&inspector, "locked").await, Some(TaskState::Pending));
}

/// No server serves the queue any more, so that no janitor releases the set.
#[tokio::test]
async fn a_task_of_a_set_whose_worker_died_can_be_changed() {
    for change in [TaskChange::Run, TaskChange::Archive, TaskChange::Delete, TaskChange::Move, TaskChange::Edit] {
        let t = Fixture::start().await;
        let inspector = Inspector::new(t.shared());
        t.seed_set(&["t1"]).await;
        let make = async || match change {
            TaskChange::Run => inspector.run("default", "t1").await,
            TaskChange::Archive => inspector.archive("default", "t1").await,
            TaskChange::Delete => inspector.delete("default", "t1").await,
            TaskChange::Move => inspector.move_to("default", "t1", "other").await,
            _ => inspector.edit_raw("default", "t1", "new").await,
        };
        let error = make().await.unwrap_err();
        let unfit = matches!(error, InspectError::Unfit { state: TaskState::Aggregating, .. });
        assert!(unfit, "{change}: its worker may live: {error}");
        t.advance(TaskSet::DEADLINE + Duration::from_secs(1));
        make().await.unwrap_or_else(|error| panic!("{change}: {error}"));
    }
}

#[tokio::test]
async fn failures_are_listed_newest_first() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    t.seed_retry("t1", Duration::from_secs(1)).await;
    t.advance(Duration::from_secs(2));
    t.forward().await;
    let run = t.take_one().await;
    t.settle(&run, retry(HOUR, "bang")).await;
    let failures = inspector.failures("default", "t1").await.unwrap();
    let texts: Vec<_> = failures.iter().map(|failure| (failure.number, failure.error.as_str())).collect();
    assert_eq!(texts, [(2, "bang"), (1, "boom")]);

    t.seed_pending(&["t2"]).await;
    assert_eq!(inspector.failures("default", "t2").await.unwrap(), [], "it never failed");
    assert!(matches!(inspector.failures("default", "none").await, Err(InspectError::TaskNotFound { .. })));
}

#[tokio::test]
async fn a_cancel_request_reaches_its_listeners_and_ends_no_healthy_run() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    let mut cancellations = t.broker().cancellations().await.unwrap();
    t.seed_active("t1").await;
    assert!(inspector.cancel("t1").await.unwrap().is_empty(), "its worker lives");
    assert_eq!(cancellations.next().await.unwrap(), "t1");
    assert_eq!(state(&inspector, "t1").await, Some(TaskState::Active));
    assert!(inspector.cancel("some-id").await.unwrap().is_empty(), "it is unknown, as in asynq");
}

#[tokio::test]
async fn a_cancel_request_ends_a_task_that_no_worker_runs_any_more() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    let mut cancellations = t.broker().cancellations().await.unwrap();
    let run = t.seed_active("t1").await;
    t.start_run(task("t1").in_queue("other")).await;
    t.let_leases_pass();
    assert!(inspector.task("default", "t1").await.unwrap().is_orphan(t.now()));
    assert_eq!(inspector.queues_of("t1").await.unwrap(), ["default", "other"].map(queue));
    assert_eq!(inspector.cancel("t1").await.unwrap(), ["default", "other"].map(queue));
    for name in ["default", "other"] {
        let task = inspector.task(name, "t1").await.unwrap();
        assert_eq!((task.state, task.retried), (TaskState::Retry, 1), "{name}");
        assert!(task.last_error.as_deref().unwrap().starts_with("cancelled while no worker ran it"), "{task:?}");
    }
    for name in ["default", "other"] {
        t.start_run(task("t2").in_queue(name)).await;
    }
    t.let_leases_pass();
    assert!(inspector.cancel_in("default", "t2").await.unwrap());
    assert!(!inspector.cancel_in("default", "t2").await.unwrap(), "it waits for its retry");
    assert_eq!(inspector.task("other", "t2").await.unwrap().state, TaskState::Active, "its queue was not named");
    assert_eq!(cancellations.next().await.unwrap(), "t2", "a request for t1 would have reached its next attempt");
    let late = t.settle(&run, asynq_tests::done()).await;
    assert_ne!(late, asynq_runtime::broker::Settled::Ok, "the worker that was only stopped changes nothing");
}

#[tokio::test]
async fn a_cancel_request_ends_an_orphan_whose_message_cannot_be_read() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    for cancel_in_queue in [false, true] {
        let id = if cancel_in_queue { "t2" } else { "t1" };
        t.seed_active(id).await;
        t.store.overwrite_message(&queue("default"), &task_id(id), b"\xff");
        t.let_leases_pass();
        if cancel_in_queue {
            assert!(inspector.cancel_in("default", id).await.unwrap());
        } else {
            assert_eq!(inspector.cancel(id).await.unwrap(), [queue("default")]);
        }
        let task = inspector.task("default", id).await.unwrap();
        assert_eq!((task.state, task.r#type.as_str()), (TaskState::Archived, "undecodable"));
    }
}
