//! Contract `Maintain`: due tasks become pending, in due order and in slices.

use std::time::Duration;

use asynq_runtime::{
    broker::{Forwarded, RetryOrder},
    task::TaskState,
};
use asynq_tests::{Build as _, Entry, default_queue, done, queue, task};

use super::Fixture;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_task_is_forwarded_when_its_time_has_come_and_not_before() {
    let t = Fixture::start().await;
    let new = task("t1").after(MINUTE);
    t.enqueue(new.clone()).await;

    t.advance(MINUTE - Duration::from_millis(1));
    assert_eq!(t.forward().await, 0);
    t.advance(Duration::from_millis(2));
    assert_eq!(t.forward().await, 1);

    let seen = t.snapshot().await;
    assert_eq!(seen.pending, [Entry::of(&new)]);
    assert_eq!(seen.len(), 1);
    assert_eq!(t.forward().await, 0, "it is forwarded once");
}

#[tokio::test]
async fn a_retry_is_forwarded_when_its_time_has_come() {
    let t = Fixture::start().await;
    t.seed_retry("t1", Duration::from_millis(1_500)).await;
    t.advance(Duration::from_millis(1_499));
    assert_eq!(t.forward().await, 0);
    t.advance(Duration::from_millis(2));
    assert_eq!(t.forward().await, 1);
    assert_eq!(t.drain().await, ["t1"]);
}

#[tokio::test]
async fn tasks_of_one_second_move_in_due_order_not_by_name() {
    let t = Fixture::start().await;
    for (id, ms) in [("a", 900), ("b", 500), ("c", 700), ("d", 100)] {
        t.seed_scheduled(id, Duration::from_millis(ms)).await;
    }
    t.advance(SECOND);
    assert_eq!(t.forward().await, 4);
    assert_eq!(t.drain().await, ["d", "b", "c", "a"]);
}

#[tokio::test]
async fn within_one_second_only_due_tasks_move() {
    let t = Fixture::start().await;
    for (id, ms) in [("a", 900), ("b", 500), ("c", 100)] {
        t.seed_scheduled(id, Duration::from_millis(ms)).await;
    }
    t.advance(Duration::from_millis(501));
    assert_eq!(t.forward().await, 2);
    assert_eq!(t.drain().await, ["c", "b"]);
    assert_eq!(t.snapshot().await.ids(TaskState::Scheduled), ["a"]);
}

#[tokio::test]
async fn scheduled_and_retry_move_in_one_due_order() {
    let t = Fixture::start().await;
    t.seed_retry("r2", Duration::from_millis(200)).await;
    t.seed_retry("r4", Duration::from_millis(400)).await;
    t.seed_scheduled("s3", Duration::from_millis(300)).await;
    t.seed_scheduled("s1", Duration::from_millis(100)).await;
    t.advance(SECOND);
    t.forward().await;
    assert_eq!(t.drain().await, ["s1", "r2", "s3", "r4"]);
}

#[tokio::test]
async fn forwarded_tasks_queue_up_behind_those_that_wait() {
    let t = Fixture::start().await;
    t.seed_scheduled("late", SECOND).await;
    t.seed_pending(&["early"]).await;
    t.advance(2 * SECOND);
    t.forward().await;
    assert_eq!(t.drain().await, ["early", "late"]);
}

/// The retry that was due first is at the head. Scheduled tasks go to the tail, and a task of a group goes to its group.
#[tokio::test]
async fn retries_come_before_pending_tasks_on_request() {
    let t = Fixture::start().await;
    for (id, ms) in [("later", 900), ("sooner", 100), ("between", 500)] {
        t.seed_retry(id, Duration::from_millis(ms)).await;
    }
    t.seed_scheduled("scheduled", SECOND).await;
    t.seed_pending(&["waits"]).await;
    t.enqueue(task("member").grouped("g").after(SECOND)).await;
    t.advance(2 * SECOND);
    let moved = t.broker().forward(&[default_queue()], RetryOrder::First).await.unwrap();
    assert_eq!(moved, Forwarded { moved: 5, more: false });
    let seen = t.snapshot().await;
    assert_eq!((seen.pending.len(), seen.stats.aggregating), (5, 1));
    assert_eq!(t.drain().await, ["sooner", "between", "later", "waits", "scheduled"]);
}

#[tokio::test]
async fn retries_come_before_the_first_of_an_empty_queue_too_and_only_on_request() {
    let t = Fixture::start().await;
    for order in [RetryOrder::First, RetryOrder::Last] {
        t.seed_retry("again", SECOND).await;
        t.seed_retry("another", 5 * SECOND).await;
        t.advance(2 * SECOND);
        assert_eq!(t.broker().forward(&[default_queue()], order).await.unwrap().moved, 1);
        t.seed_pending(&["new"]).await;
        t.advance(4 * SECOND);
        assert_eq!(t.broker().forward(&[default_queue()], order).await.unwrap().moved, 1);
        let drained = t.take(100).await;
        let ids: Vec<_> = drained.iter().map(|run| run.key.id.to_string()).collect();
        match order {
            RetryOrder::First => assert_eq!(ids, ["another", "again", "new"]),
            RetryOrder::Last => assert_eq!(ids, ["again", "new", "another"]),
        }
        for run in &drained {
            t.settle(run, done()).await;
        }
    }
}

#[tokio::test]
async fn a_task_is_pending_since_the_time_of_its_forward() {
    let t = Fixture::start().await;
    t.seed_scheduled("t1", SECOND).await;
    t.advance(10 * SECOND);
    t.forward().await;
    t.advance(3 * SECOND);
    assert_eq!(t.snapshot().await.stats.latency, 3 * SECOND);
}

#[tokio::test]
async fn forwarding_goes_in_slices_of_a_hundred_and_says_whether_there_is_more() {
    let t = Fixture::start().await;
    let batch = (0..150).map(|i| task(&format!("t{i:03}")).after(Duration::from_millis(1000 + i))).collect();
    assert!(t.broker().enqueue(batch).await.iter().all(Result::is_ok));
    t.advance(MINUTE);

    let first = t.broker().forward(&[default_queue()], RetryOrder::Last).await.unwrap();
    assert_eq!(first, Forwarded { moved: 100, more: true });
    let second = t.broker().forward(&[default_queue()], RetryOrder::Last).await.unwrap();
    assert_eq!(second, Forwarded { moved: 50, more: false });

    let mut order = t.drain().await;
    order.extend(t.drain().await);
    assert_eq!(order, (0..150).map(|i| format!("t{i:03}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn every_given_queue_is_forwarded_and_no_other() {
    let t = Fixture::start().await;
    for name in ["a", "b", "c"] {
        t.enqueue(task("t1").in_queue(name).after(SECOND)).await;
    }
    t.advance(MINUTE);
    let moved = t.broker().forward(&[queue("a"), queue("c"), queue("none")], RetryOrder::Last).await.unwrap();
    assert_eq!(moved, Forwarded { moved: 2, more: false });
    assert_eq!(t.broker().queue_stats(&queue("b")).await.unwrap().scheduled, 1);
}

#[tokio::test]
async fn a_paused_queue_is_forwarded_all_the_same() {
    let t = Fixture::start().await;
    t.seed_scheduled("t1", SECOND).await;
    t.broker().pause(&default_queue()).await.unwrap();
    t.advance(MINUTE);
    assert_eq!(t.forward().await, 1);
}
