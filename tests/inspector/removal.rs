//! The deletion of a whole queue, or its refusal with a reason.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use asynq_runtime::{
    Inspector,
    broker::{TaskSet, Wanted},
    inspector::{Force, InspectError},
};
use asynq_tests::{Build as _, Store as _, done, lock_key, queue, task};
use tokio::runtime::Handle;

use super::Fixture;

#[tokio::test]
async fn a_queue_with_tasks_needs_force() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    t.seed_completed("t1", 3600).await;
    let error = inspector.delete_queue("default", Force::No).await.unwrap_err();
    assert!(matches!(error, InspectError::QueueNotEmpty { tasks: 1, .. }), "kept successes are tasks too: {error}");
    let text = "queue `default` still has tasks (1); delete it with `Force::Yes` to delete them too";
    assert_eq!(error.to_string(), text);
    inspector.delete("default", "t1").await.unwrap();
    assert_eq!(inspector.delete_queue("default", Force::No).await.unwrap().tasks, 0);
    assert!(inspector.queues().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_dry_run_counts_and_changes_nothing() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    t.seed_archived("a").await;
    t.seed_pending(&["p1", "p2"]).await;
    let before = t.store.dump();
    assert_eq!(inspector.delete_queue("default", Force::Yes).dry_run().await.unwrap().tasks, 3);
    let error = inspector.delete_queue("default", Force::No).dry_run().await.unwrap_err();
    assert!(matches!(error, InspectError::QueueNotEmpty { tasks: 3, .. }), "{error}");
    assert_eq!(t.store.dump(), before);
}

#[tokio::test]
async fn force_deletes_everything_of_the_queue_and_reports_its_progress() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    t.seed_completed("c", 3600).await;
    t.seed_archived("a").await;
    let tasks = (0..150).map(|n| task(&format!("t{n}")).after(Duration::from_secs(60))).collect();
    t.broker().enqueue(tasks).await;
    t.enqueue(task("locked").locked(&lock_key("a"), 600)).await;
    let mut grouped = task("g");
    grouped.group = Some(asynq_runtime::task::GroupName::from_wire("group"));
    grouped.message.group_key = "group".into();
    t.enqueue(grouped).await;
    t.enqueue(task("neighbour").in_queue("other")).await;

    let progress = Arc::new(Mutex::new(Vec::new()));
    let progress_log = progress.clone();
    let removal = inspector.delete_queue("default", Force::Yes);
    let removed = removal.on_progress(move |p| progress_log.lock().unwrap().push((p.done, p.total))).await.unwrap();
    assert_eq!((removed.tasks, removed.ghosts), (154, 0));
    let progress = progress.lock().unwrap().clone();
    assert!(progress.is_sorted() && progress.last() == Some(&(154, 154)) && progress.len() > 4, "{progress:?}");

    let left: Vec<_> = inspector.queues().await.unwrap().into_iter().map(|q| (q.name.to_string(), q.size)).collect();
    assert_eq!(left, [("other".to_owned(), 1)]);
    // By another program: on Redis a program that knew the queue makes it known again within a minute.
    let other = t.another_broker().await;
    other.enqueue(vec![task("anew").locked(&lock_key("a"), 60)]).await.remove(0).expect("its locks are free");
    let anew = inspector.queue("default").await.unwrap();
    assert_eq!((anew.processed_total, anew.paused), (0, false), "its counters and its pause are gone");
}

#[tokio::test]
async fn a_deletion_in_parts_goes_on_where_its_time_was_over() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    t.seed_archived("a").await;
    t.broker().enqueue((0..250).map(|n| task(&format!("t{n}"))).collect()).await;
    let (mut parts, mut tasks) = (0, 0);
    loop {
        let removed = inspector.delete_queue("default", Force::Yes).within(Duration::ZERO).await.unwrap();
        (parts, tasks) = (parts + 1, tasks + removed.tasks);
        if !removed.more {
            break;
        }
        assert!(inspector.queue("default").await.unwrap().paused, "nobody takes tasks between two parts");
    }
    assert!(parts > 1 && tasks == 251, "{tasks} tasks in {parts} parts");
    assert!(inspector.queue("default").await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn running_tasks_keep_their_queue() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    let run = t.seed_active("t1").await;
    t.seed_pending(&["t2"]).await;
    for force in [Force::No, Force::Yes] {
        for removal in [inspector.delete_queue("default", force), inspector.delete_queue("default", force).dry_run()] {
            let error = removal.await.unwrap_err();
            assert!(matches!(error, InspectError::QueueActive { active: 1, .. }), "{error}");
        }
    }
    let queue = inspector.queue("default").await.unwrap();
    assert_eq!((queue.size, queue.paused), (2, false));
    t.settle(&run, done()).await;
    assert_eq!(inspector.delete_queue("default", Force::Yes).await.unwrap().tasks, 1);
}

/// No server serves the queue any more, so that no janitor releases the set.
#[tokio::test]
async fn the_tasks_of_a_set_whose_worker_died_are_deleted_with_their_queue() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    t.seed_set(&["t1", "t2"]).await;
    let error = inspector.delete_queue("default", Force::Yes).await.unwrap_err();
    assert!(matches!(error, InspectError::QueueRefilled { deleted: 0, .. }), "its worker may live: {error}");
    t.advance(TaskSet::DEADLINE + Duration::from_secs(1));
    assert_eq!(inspector.delete_queue("default", Force::Yes).dry_run().await.unwrap().tasks, 2);
    let error = inspector.delete_queue("default", Force::No).await.unwrap_err();
    assert!(matches!(error, InspectError::QueueNotEmpty { tasks: 2, .. }), "{error}");
    assert_eq!(inspector.delete_queue("default", Force::Yes).await.unwrap().tasks, 2);
    assert!(inspector.queues().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_others_fill_is_not_deleted_and_runs_again() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    t.enqueue(task("t0").after(Duration::from_secs(60))).await;
    // A new task follows each deletion, because the producer has not stopped.
    let (broker, mut n) = (t.shared(), 0);
    let refill = move |_| {
        n += 1;
        let new = task(&format!("t{n}")).after(Duration::from_secs(60));
        tokio::task::block_in_place(|| Handle::current().block_on(broker.enqueue(vec![new]))).remove(0).unwrap();
    };
    let error = inspector.delete_queue("default", Force::Yes).on_progress(refill).await.unwrap_err();
    assert!(matches!(error, InspectError::QueueRefilled { deleted: 3, .. }), "{error}");
    let queue = inspector.queue("default").await.unwrap();
    assert_eq!((queue.scheduled, queue.paused), (1, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_begins_during_a_deletion_does_not_hide_what_was_deleted() {
    let t = Fixture::start().await;
    let inspector = Inspector::new(t.shared());
    t.enqueue(task("t0").after(Duration::from_secs(60))).await;
    // Another person lets the queue run on, and a worker takes its next task.
    let (broker, member) = (t.shared(), t.another_member(2).await);
    let begin = move |_| {
        let begun = async {
            broker.resume(&queue("default")).await.unwrap();
            broker.enqueue(vec![task("t1")]).await.remove(0).unwrap();
            broker.dequeue(&member, &[Wanted { queue: queue("default"), n: 1 }]).await.unwrap()
        };
        let runs = tokio::task::block_in_place(|| Handle::current().block_on(begun));
        assert_eq!(runs.len(), 1);
    };
    let error = inspector.delete_queue("default", Force::Yes).on_progress(begin).await.unwrap_err();
    assert!(matches!(error, InspectError::QueueRefilled { deleted: 1, .. }), "{error}");
}
