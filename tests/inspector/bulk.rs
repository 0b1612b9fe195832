//! Repairs of many tasks: every task is treated, with a report for each slice, and none is dropped silently.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use asynq_runtime::{
    Inspector, TaskState,
    broker::TaskSet,
    inspector::{BulkReport, InspectError},
    task::{ArchiveLimit, GroupName, QueueWeight, ServerInfo},
};
use asynq_tests::{Build as _, Need, Store as _, default_queue, task, task_id};

use super::Fixture;

const HOUR: Duration = Duration::from_secs(3600);

/// Schedules `n` tasks for an hour from now.
async fn scheduled(t: &Fixture, n: usize) {
    let tasks = (0..n).map(|n| task(&format!("t{n:04}")).after(HOUR)).collect();
    for answer in t.broker().enqueue(tasks).await {
        answer.unwrap();
    }
}

/// Lists a server of `queue` whose archives have these limits.
async fn server(t: &Fixture, number: u32, queue: &str, limits: &[(&str, u64)]) {
    let member = t.another_member(number).await;
    let archives = limits.iter().map(|&(queue, tasks)| ArchiveLimit { queue: queue.into(), tasks }).collect();
    let info = ServerInfo {
        rust_version: "0.1.0".into(),
        queues: vec![QueueWeight { queue: Some(queue.into()), weight: Some(1) }],
        archives,
        ..ServerInfo::default()
    };
    t.broker().beat(&member, &info, &[]).await.unwrap();
}

/// The numbers of a report, for comparison.
fn numbers(report: BulkReport) -> [u64; 4] {
    [report.changed, report.ghosts, report.left, report.beyond_archive_limit]
}

#[tokio::test]
async fn all_are_changed_in_slices_whose_progress_is_reported() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    scheduled(&t, 250).await;
    let progress = Arc::new(Mutex::new(Vec::new()));
    let progress_log = progress.clone();
    let bulk = inspector.run_all("default", TaskState::Scheduled);
    let report = bulk.on_progress(move |p| progress_log.lock().unwrap().push((p.done, p.total))).await.unwrap();
    assert_eq!(numbers(report), [250, 0, 0, 0]);
    assert_eq!(*progress.lock().unwrap(), [(0, 250), (100, 250), (200, 250), (250, 250)]);
    let queue = inspector.queue("default").await.unwrap();
    assert_eq!((queue.pending, queue.scheduled), (250, 0));

    assert_eq!(numbers(inspector.archive_all("default", TaskState::Pending).await.unwrap()), [250, 0, 0, 0]);
    assert_eq!(numbers(inspector.delete_all("default", TaskState::Archived).await.unwrap()), [250, 0, 0, 0]);
    assert_eq!(inspector.queue("default").await.unwrap().size, 0);
    assert_eq!(numbers(inspector.run_all("default", TaskState::Archived).await.unwrap()), [0; 4], "none, and no error");
}

#[tokio::test]
async fn tasks_that_come_meanwhile_are_left_and_counted() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    scheduled(&t, 150).await;
    let mut bulk = inspector.delete_all("default", TaskState::Scheduled).start().await.unwrap();
    assert_eq!(bulk.slice().await.unwrap().map(|p| p.done), Some(100));
    for n in 0..30 {
        t.enqueue(task(&format!("late{n}")).after(2 * HOUR)).await;
    }
    assert_eq!(bulk.slice().await.unwrap().map(|p| (p.done, p.total)), Some((150, 150)));
    assert_eq!(bulk.slice().await.unwrap(), None);
    assert_eq!(numbers(bulk.report().await.unwrap()), [150, 0, 30, 0]);
}

#[tokio::test]
async fn a_started_change_goes_on_after_a_broker_failed() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    scheduled(&t, 150).await;
    let failing = t.another_broker().await;
    let mut bulk = Inspector::new(failing.clone()).run_all("default", TaskState::Scheduled).start().await.unwrap();
    bulk.slice().await.unwrap();
    failing.close().await;
    let error = bulk.slice().await.unwrap_err();
    let InspectError::Interrupted { done, .. } = &error else { panic!("{error}") };
    assert_eq!(numbers(*done), [100, 0, 50, 0]);
    assert!(error.to_string().starts_with("stopped after 100 tasks: "), "{error}");
    assert!(matches!(bulk.report().await, Err(InspectError::Interrupted { .. })));

    assert_eq!(numbers(inspector.run_all("default", TaskState::Scheduled).await.unwrap()), [50, 0, 0, 0]);
    assert_eq!(inspector.queue("default").await.unwrap().pending, 150);
}

#[tokio::test]
async fn an_archive_that_cannot_keep_all_is_left_as_it_is_unless_that_is_allowed() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    scheduled(&t, 120).await;
    t.seed_archived("old").await;
    server(&t, 1, "default", &[("default", 100)]).await;
    let archive = || inspector.archive_all("default", TaskState::Scheduled);
    let error = archive().await.unwrap_err();
    assert!(matches!(error, InspectError::BeyondArchive { limit: 100, beyond: 21, .. }), "{error}");
    assert!(error.to_string().contains("`.beyond_archive()`"), "{error}");
    let stats = inspector.queue("default").await.unwrap();
    assert_eq!((stats.scheduled, stats.archived), (120, 1));
    assert_eq!(numbers(archive().beyond_archive().await.unwrap()), [120, 0, 0, 21]);
    assert_eq!(inspector.queue("default").await.unwrap().archived, 121, "nothing is dropped by the call");
}

#[tokio::test]
async fn the_limit_of_an_archive_is_that_of_its_servers_and_is_reported_before_a_change() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    scheduled(&t, 120).await;
    t.seed_archived("old").await;
    let room = inspector.archive_room("default").await.unwrap();
    assert_eq!((room.archived, room.limit), (1, 10_000), "no living server has another limit");
    server(&t, 1, "default", &[("*", 50), ("low", 5)]).await;
    server(&t, 2, "def*", &[("low", 5), ("default", 200)]).await;
    // This server does not serve the queue, so its janitor does not trim the archive.
    server(&t, 3, "low", &[("*", 1)]).await;
    let bulk = inspector.archive_all("default", TaskState::Scheduled).start().await.unwrap();
    assert_eq!((bulk.archive_room().limit, bulk.beyond_archive_limit()), (50, 71));
    drop(bulk);
    assert_eq!(inspector.queue("default").await.unwrap().scheduled, 120, "nothing is changed by looking");
    let bulk = inspector.archive_all("default", TaskState::Scheduled).at_most(40).start().await.unwrap();
    assert_eq!((bulk.progress().total, bulk.beyond_archive_limit()), (40, 0));
    let bulk = inspector.delete_all("default", TaskState::Scheduled).start().await.unwrap();
    assert_eq!(bulk.beyond_archive_limit(), 0, "nothing is archived");
    drop(bulk);
    assert_eq!(numbers(inspector.run_all("default", TaskState::Scheduled).at_most(40).await.unwrap()), [40, 0, 80, 0]);
}

#[tokio::test]
async fn a_group_is_treated_alone() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    for (id, group) in [("t1", "a"), ("t2", "b"), ("t3", "b")] {
        t.enqueue(task(id).grouped(group)).await;
    }
    let group = |name| GroupName::new(name).unwrap();
    assert_eq!(numbers(inspector.run_all("default", group("b")).await.unwrap()), [2, 0, 0, 0]);
    let queue = inspector.queue("default").await.unwrap();
    assert_eq!((queue.pending, queue.aggregating), (2, 1));
    let error = inspector.archive_all("default", group("b")).await.unwrap_err();
    assert_eq!(error.to_string(), "invalid `group`: queue `default` has no tasks in a group `b`");
    assert_eq!(numbers(inspector.delete_all("default", TaskState::Aggregating).await.unwrap()), [1, 0, 0, 0]);
}

/// No server serves the queue any more, so that no janitor releases the set.
#[tokio::test]
async fn the_tasks_of_a_set_whose_worker_died_are_among_those_of_their_group() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    t.seed_set(&["t1", "t2"]).await;
    t.advance(TaskSet::DEADLINE + Duration::from_secs(1));
    let group = GroupName::new("g").unwrap();
    assert_eq!(numbers(inspector.run_all("default", group).at_most(1).await.unwrap()), [1, 0, 1, 0]);
    assert_eq!(numbers(inspector.run_all("default", TaskState::Aggregating).await.unwrap()), [1, 0, 0, 0]);
}

#[tokio::test]
async fn a_group_is_found_behind_five_hundred_others() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    let tasks = (0..510).map(|n| task(&format!("t{n}")).grouped(&format!("g{n:03}"))).collect();
    for answer in t.broker().enqueue(tasks).await {
        answer.unwrap();
    }
    let group = GroupName::new("g505").unwrap();
    assert_eq!(numbers(inspector.run_all("default", group).await.unwrap()), [1, 0, 0, 0]);
    assert_eq!(inspector.task("default", "t505").await.unwrap().state, TaskState::Pending);
}

#[tokio::test]
async fn states_that_cannot_be_treated_so_are_refused() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    t.seed_every_state().await;
    use TaskState::{Active, Archived, Completed, Pending};
    for (bulk, expected) in [
        (inspector.run_all("default", Active), "cannot run all active tasks: each is running already"),
        (inspector.run_all("default", Pending), "cannot run all pending tasks: each is pending already"),
        (
            inspector.run_all("default", Completed),
            "cannot run all completed tasks: each has succeeded; do so one by one if you mean it",
        ),
        (inspector.archive_all("default", Archived), "cannot archive all archived tasks: each is archived already"),
        (
            inspector.delete_all("default", Active),
            "cannot delete all active tasks: each is running; cancel it instead, or wait for its end",
        ),
    ] {
        assert_eq!(bulk.await.unwrap_err().to_string(), expected);
    }
    assert_eq!(inspector.queue("default").await.unwrap().size, 6);
}

#[tokio::test]
async fn ids_without_a_task_are_taken_off_and_counted() {
    let t = Fixture::start().await;
    if t.lacks(Need::Ghosts) {
        return;
    }
    let inspector = Inspector::new(t.shared());
    scheduled(&t, 3).await;
    t.store.make_ghost(&default_queue(), &task_id("t0001"));
    assert_eq!(numbers(inspector.run_all("default", TaskState::Scheduled).await.unwrap()), [2, 1, 0, 0]);
}
