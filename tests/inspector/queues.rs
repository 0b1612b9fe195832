//! Queues: their numbers, their history, their pause, and the errors for missing queues.

use std::{future::Future, time::Duration};

use asynq_runtime::{
    Inspector,
    inspector::{Force, InspectError},
    task::TaskState,
};
use asynq_tests::{Build as _, done, retry, task};

use super::Fixture;

#[tokio::test]
async fn every_queue_is_listed_by_name_with_its_numbers() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    assert_eq!(inspector.queues().await.unwrap(), []);
    for (id, queue) in [("t1", "low"), ("t2", "default"), ("t3", "default")] {
        t.enqueue(task(id).in_queue(queue)).await;
    }
    t.advance(Duration::from_secs(3));
    let queues = inspector.queues().await.unwrap();
    let rows: Vec<_> = queues.iter().map(|q| (q.name.as_str(), q.size, q.pending, q.latency.as_secs())).collect();
    assert_eq!(rows, [("default", 2, 2, 3), ("low", 1, 1, 3)]);
    assert_eq!(inspector.queue("low").await.unwrap(), queues[1]);
}

#[tokio::test]
async fn queues_of_other_programs_are_readable_under_any_name() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    for name in ["a{b}", "with space", "{", "ünï"] {
        t.enqueue(task("t1").in_queue(name)).await;
        assert_eq!(inspector.queue(name).await.unwrap().pending, 1, "{name}");
        assert_eq!(inspector.task(name, "t1").await.unwrap().queue, name);
        assert_eq!(inspector.tasks(name, TaskState::Pending).await.unwrap().len(), 1, "{name}");
        inspector.delete(name, "t1").await.unwrap();
        assert_eq!(inspector.queue(name).await.unwrap().size, 0, "{name}");
    }
}

#[tokio::test]
async fn a_pause_stops_dequeues_until_it_is_lifted() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    t.seed_pending(&["t1"]).await;
    assert!(inspector.pause("default").await.unwrap(), "it was running");
    assert!(!inspector.pause("default").await.unwrap(), "it was paused already");
    assert!(inspector.queue("default").await.unwrap().paused && t.drain().await.is_empty());
    assert!(inspector.resume("default").await.unwrap(), "it was paused");
    assert!(!inspector.resume("default").await.unwrap(), "it was running already");
    assert_eq!(t.drain().await, ["t1"]);
    assert!(inspector.pause("not yet there").await.unwrap());
}

#[tokio::test]
async fn the_history_lists_days_today_first() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    let run = t.seed_active("t1").await;
    t.settle(&run, done()).await;
    t.advance(Duration::from_secs(24 * 3600));
    let run = t.seed_active("t2").await;
    t.settle(&run, retry(Duration::from_secs(60), "boom")).await;
    let days = inspector.history("default", 3).await.unwrap();
    let rows: Vec<_> = days.iter().map(|day| (day.date.to_string(), day.processed, day.failed)).collect();
    assert_eq!(rows, [("2030-01-03".into(), 1, 1), ("2030-01-02".into(), 1, 0), ("2030-01-01".into(), 0, 0)]);
    assert_eq!(inspector.history("default", 1000).await.unwrap().len(), 90, "no longer than they are kept");
    let error = inspector.history("default", 0).await.unwrap_err();
    assert_eq!(error.to_string(), "invalid `days`: it must be at least 1");
}

#[tokio::test]
async fn memory_grows_with_the_tasks() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    t.enqueue(task("t1").with_payload(vec![7; 1000])).await;
    let one = inspector.memory_usage("default").await.unwrap();
    t.enqueue(task("t2").with_payload(vec![7; 1000])).await;
    let two = inspector.memory_usage("default").await.unwrap();
    assert!(one >= 1000 && two >= one + 1000, "{one}, then {two}");
}

/// Calls every function of the inspector about one queue and returns the errors.
async fn calls(inspector: &Inspector, queue: &str) -> Vec<(&'static str, Option<InspectError>)> {
    async fn error<T>(call: impl Future<Output = Result<T, InspectError>>) -> Option<InspectError> {
        call.await.err()
    }
    let state = TaskState::Archived;
    vec![
        ("queue", error(inspector.queue(queue)).await),
        ("history", error(inspector.history(queue, 7)).await),
        ("memory_usage", error(inspector.memory_usage(queue)).await),
        ("tasks", error(inspector.tasks(queue, state).into_future()).await),
        ("group tasks", error(inspector.tasks(queue, TaskState::Aggregating).group("g").into_future()).await),
        ("groups", error(inspector.groups(queue).into_future()).await),
        ("task", error(inspector.task(queue, "t1")).await),
        ("failures", error(inspector.failures(queue, "t1")).await),
        ("run", error(inspector.run(queue, "t1")).await),
        ("archive", error(inspector.archive(queue, "t1")).await),
        ("delete", error(inspector.delete(queue, "t1")).await),
        ("move_to", error(inspector.move_to(queue, "t1", "other")).await),
        ("edit_raw", error(inspector.edit_raw(queue, "t1", "x")).await),
        ("run_all", error(inspector.run_all(queue, state).into_future()).await),
        ("archive_all", error(inspector.archive_all(queue, TaskState::Retry).into_future()).await),
        ("delete_all", error(inspector.delete_all(queue, state).into_future()).await),
        ("delete_queue", error(inspector.delete_queue(queue, Force::Yes).into_future()).await),
    ]
}

#[tokio::test]
async fn a_missing_queue_is_an_error_of_every_call() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    for (call, error) in calls(&Inspector::new(t.shared()), "none").await {
        let error = error.unwrap_or_else(|| panic!("{call} should fail"));
        assert!(matches!(&error, InspectError::QueueNotFound { queue } if queue == "none"), "{call}: {error}");
        assert_eq!(error.to_string(), "queue `none` was not found", "{call}");
        assert!(error.is_not_found() && !error.is_unavailable(), "{call}");
    }
}

#[tokio::test]
async fn a_blank_name_is_refused_by_every_call() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    for (call, error) in calls(&inspector, " \t").await {
        let error = error.unwrap_or_else(|| panic!("{call} should fail"));
        assert_eq!(error.to_string(), "invalid `queue`: it must not be blank", "{call}");
    }
    for error in [inspector.pause("").await.unwrap_err(), inspector.resume("").await.unwrap_err()] {
        assert_eq!(error.to_string(), "invalid `queue`: it must not be blank");
    }
    for error in [inspector.run("default", "").await.unwrap_err(), inspector.cancel(" ").await.unwrap_err()] {
        assert_eq!(error.to_string(), "invalid `id`: it must not be blank");
    }
}

#[tokio::test]
async fn a_lost_broker_is_an_error_of_every_call() {
    let t = Fixture::start().await;
    let broker = t.another_broker().await;
    let inspector = Inspector::new(broker.clone());
    broker.close().await;
    for (call, error) in calls(&inspector, "default").await {
        assert!(matches!(error, Some(InspectError::Broker(_))), "{call}: {error:?}");
    }
    assert!(matches!(inspector.queues().await, Err(InspectError::Broker(_))));
    assert!(matches!(inspector.servers().await, Err(InspectError::Broker(_))));
    assert!(matches!(inspector.statistics().await, Err(InspectError::Broker(_))));
    assert!(matches!(inspector.cancel("t1").await, Err(InspectError::Broker(_))));
}
