//! The exact due times beside servers of Go, which forward tasks and leave these times where they are.

use std::time::Duration;

use asynq_runtime::{
    broker::{
        Action, BulkAction, Changed, Chosen, Inspect, Maintain, Produce, Repair, RetryOrder, When, redis::RedisBroker,
    },
    task::TaskState,
};
use redis::{AsyncCommands, aio::MultiplexedConnection};

use super::{server::Server, tasks::*};

const DUE: &str = "asynq:{default}:x:due";
const DAY: i64 = 86_400;

/// Enqueues tasks that are due in a second, takes them out of `scheduled`, as Go does, and runs them.
async fn run_by_go(broker: &RedisBroker, redis: &mut MultiplexedConnection, ids: &[String]) {
    let new = ids.iter().map(|id| {
        let mut new = task(id);
        new.when = When::In(Duration::from_secs(1));
        new
    });
    for outcome in broker.enqueue(new.collect()).await {
        outcome.unwrap();
    }
    let () = redis.zrem("asynq:{default}:scheduled", ids).await.unwrap();
    let () = redis.del(ids.iter().map(|id| format!("asynq:{{default}}:t:{id}")).collect::<Vec<_>>()).await.unwrap();
}

#[tokio::test]
async fn stale_times_go_with_the_next_that_come_and_the_key_ends_by_itself() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, clock) = with_clock(&server).await;
    let mut most = 0;
    for round in 0..40 {
        let ids: Vec<String> = (0..10).map(|i| format!("{round}-{i}")).collect();
        run_by_go(&broker, &mut redis, &ids).await;
        clock.advance(Duration::from_secs(1));
        let members: usize = redis.zcard(DUE).await.unwrap();
        most = most.max(members);
    }
    // Three seconds of ten tasks each are kept, and those that came with the last call.
    assert!(most <= 40, "{most} of 400 times were kept at once");
    let ends: i64 = redis.ttl(DUE).await.unwrap();
    assert!((DAY - 60..=DAY + 1).contains(&ends), "{ends}");
    // A later time makes the key last longer, an earlier one no shorter.
    for days in [3, 2] {
        let mut late = task(&format!("in {days} days"));
        late.when = When::In(Duration::from_secs(days * 86_400));
        broker.enqueue(vec![late]).await.remove(0).unwrap();
        let ends: i64 = redis.ttl(DUE).await.unwrap();
        assert!((4 * DAY - 60..=4 * DAY + 1).contains(&ends), "{ends}");
    }
}

#[tokio::test]
async fn times_of_retries_go_with_the_next_that_come() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, clock) = with_clock(&server).await;
    for round in 0..20 {
        let id = format!("t{round}");
        put(&broker, &[&id]).await;
        let runs = take(&broker, &member("me"), 1).await;
        let retry = Action::Retry {
            delay: Duration::from_secs(1),
            error: Some("boom".into()),
            counted: true,
            extra: Default::default(),
        };
        settle(&broker, &runs[0], retry).await;
        let () = redis.zrem("asynq:{default}:retry", &id).await.unwrap();
        clock.advance(Duration::from_secs(4));
    }
    let members: usize = redis.zcard(DUE).await.unwrap();
    assert!(members <= 2, "{members} of 20 times were kept");
    assert!(redis.ttl::<_, i64>(DUE).await.unwrap() > 0);
}

#[tokio::test]
async fn the_exact_times_of_tasks_that_still_wait_are_kept() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, clock) = with_clock(&server).await;
    let delayed = |id: &str, ms| {
        let mut new = task(id);
        new.when = When::In(Duration::from_millis(ms));
        new
    };
    // The tasks are in due order, which is not that of their names, all within a second.
    for (id, ms) in [("c", 1_100), ("b", 1_200), ("a", 1_300)] {
        broker.enqueue(vec![delayed(id, ms)]).await.remove(0).unwrap();
    }
    clock.advance(Duration::from_secs(10));
    broker.enqueue(vec![delayed("next", 1_000)]).await.remove(0).unwrap();
    let left: Vec<String> = redis.zrange(DUE, 0, -1).await.unwrap();
    assert_eq!(left, ["s:c", "s:b", "s:a", "s:next"]);
    assert_eq!(broker.forward(&[queue()], RetryOrder::Last).await.unwrap().moved, 3);
    assert_eq!(ids(&take(&broker, &member("me"), 9).await), ["c", "b", "a"]);
}

#[tokio::test]
async fn a_task_that_a_person_changes_takes_its_exact_time_along() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    for action in [BulkAction::Run, BulkAction::Archive, BulkAction::Delete] {
        for state in [TaskState::Scheduled, TaskState::Retry] {
            for (name, is_bulk) in [("one", false), ("some", true)] {
                let mut new = task(&format!("{name}-{action:?}-{state}"));
                let id = new.id.clone();
                if state == TaskState::Scheduled {
                    new.when = When::In(Duration::from_secs(60));
                }
                broker.enqueue(vec![new]).await.remove(0).unwrap();
                for run in take(&broker, &member("me"), 9).await {
                    settle(&broker, &run, retry(Duration::from_secs(60))).await;
                }
                assert_eq!(redis.zcard::<_, usize>(DUE).await.unwrap(), 1, "{id}");
                if is_bulk {
                    broker.change_some(&queue(), &Chosen::InState(state), action, 100).await.unwrap();
                } else {
                    assert_eq!(broker.change_task(&queue(), &id, None, action).await.unwrap(), Changed::Done);
                }
                assert!(!redis.exists::<_, bool>(DUE).await.unwrap(), "{id}");
                // A task that was run must not be taken by the next round.
                for run in take(&broker, &member("me"), 9).await {
                    settle(&broker, &run, Action::Done).await;
                }
            }
        }
    }
}

#[tokio::test]
async fn stale_times_take_no_room_from_tasks_that_are_due() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, clock) = with_clock(&server).await;
    let now = clock_seconds(&broker);
    // No server of ours was there while Go worked; and Go's own tasks are due.
    let stale: Vec<(i64, String)> = (0..1_000).map(|i| ((now - 60) * 1000 + i, format!("s:gone-{i}"))).collect();
    let () = redis.zadd_multiple(DUE, &stale).await.unwrap();
    put(&broker, &["due"]).await;
    let () = redis.del("asynq:{default}:pending").await.unwrap();
    let () = redis.hset("asynq:{default}:t:due", "state", "scheduled").await.unwrap();
    let () = redis.zadd("asynq:{default}:scheduled", "due", now - 1).await.unwrap();
    assert_eq!(broker.forward(&[queue()], RetryOrder::Last).await.unwrap().moved, 1);
    assert_eq!(broker.tasks(&queue(), TaskState::Pending, Default::default()).await.unwrap().len(), 1);
    clock.advance(Duration::from_secs(1));
}

fn clock_seconds(broker: &RedisBroker) -> i64 {
    use asynq_runtime::broker::Broker as _;
    broker.now().timestamp()
}
