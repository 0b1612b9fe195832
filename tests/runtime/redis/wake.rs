//! Waits that end when a queue changes, by whichever program. Each wait here may last an hour, so only a notification or a due
//! time can have ended it.

use std::time::{Duration, Instant};

use asynq_runtime::{
    broker::{
        ArchivePolicy, Consume, Groups, Inspect, Maintain, Page, Placed, Produce, Quarantined, When, redis::RedisBroker,
    },
    task::TaskState,
};
use asynq_test_support::{eventually, soon};
use redis::{AsyncCommands, aio::MultiplexedConnection};

use super::{
    server::{Server, patient},
    tasks::*,
};

#[tokio::test]
async fn a_waiting_worker_wakes_on_the_push_of_a_foreign_client() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    for round in 0..20 {
        let queues = [queue()];
        let pushed = async {
            until_tracked(&mut redis, 2).await;
            let () = redis.lpush("asynq:{default}:pending", round).await.unwrap();
        };
        let (woken, ()) =
            soon(async { tokio::join!(broker.wait_for_work(&queues, Quarantined::All, HOUR), pushed) }).await;
        woken.unwrap();
        let () = redis.del("asynq:{default}:pending").await.unwrap();
    }
}

#[tokio::test]
async fn a_worker_wakes_when_its_queue_is_resumed_and_when_redis_comes_back() {
    let mut server = Server::start(&[]);
    let broker = server.broker().await;
    put(&broker, &["a"]).await;
    assert!(broker.pause(&queue()).await.unwrap());
    assert!(!broker.pause(&queue()).await.unwrap());
    assert!(take(&broker, &member("me"), 1).await.is_empty());
    let queues = [queue()];
    let resumed = async {
        until_tracked(&mut server.foreign().await, 2).await;
        broker.resume(&queue()).await
    };
    let (woken, resumed) =
        soon(async { tokio::join!(broker.wait_for_work(&queues, Quarantined::All, HOUR), resumed) }).await;
    woken.unwrap();
    assert!(resumed.unwrap());
    assert_eq!(take(&broker, &member("me"), 1).await.len(), 1);

    // A wait that asks only the new Redis may sleep on, because it finds no task there.
    let restarted = async {
        until_tracked(&mut server.foreign().await, 2).await;
        server.restart();
    };
    let (woken, ()) =
        soon(async { tokio::join!(broker.wait_for_work(&queues, Quarantined::All, HOUR), restarted) }).await;
    // The wait was notified of the loss, or could not ask again; it must not sleep on.
    assert!(woken.is_ok() || woken.unwrap_err().is_unavailable());
    eventually("the new Redis takes a task", async || broker.enqueue(vec![task("b")]).await.remove(0).ok()).await;
    soon(broker.wait_for_work(&queues, Quarantined::All, HOUR)).await.unwrap();
    assert_eq!(ids(&take(&broker, &member("me"), 1).await), ["b"]);
    assert_eq!(broker.queues().await.unwrap(), [queue()], "made known again to a Redis that lost it");
}

#[tokio::test]
async fn a_wait_for_due_tasks_ends_with_the_earliest_and_never_before_its_time() {
    const DELAY: Duration = Duration::from_millis(150);
    let server = Server::start(&[]);
    let broker = server.broker().await;
    let mut late = task("late");
    late.when = When::In(24 * HOUR);
    let placed: Placed = broker.enqueue(vec![late]).await.remove(0).unwrap();
    assert_eq!(placed.state, TaskState::Scheduled);
    let listed = broker.tasks(&queue(), TaskState::Scheduled, Page::default()).await.unwrap();
    assert_eq!(listed[0].next_process_at, Some(placed.process_at));
    // A task that is due earlier comes while the forwarder sleeps until the late one.
    let mut early = task("early");
    early.when = When::In(DELAY);
    let begun = Instant::now();
    let enqueued = async {
        until_tracked(&mut server.foreign().await, 3).await;
        broker.enqueue(vec![early]).await.remove(0).unwrap();
    };
    soon(async { tokio::join!(forward_when_due(&broker), enqueued) }).await;
    // Redis counts in whole milliseconds.
    assert!(begun.elapsed() >= DELAY - Duration::from_millis(1), "{:?}", begun.elapsed());
    assert_eq!(ids(&take(&broker, &member("me"), 9).await), ["early"]);
}

/// Returns how many connections Redis has accepted.
async fn connections(redis: &mut MultiplexedConnection) -> u64 {
    let info: String = redis::cmd("INFO").arg("stats").query_async(redis).await.unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("total_connections_received:")).unwrap();
    line.trim().parse().unwrap()
}

#[tokio::test]
async fn where_tracking_is_refused_the_queue_is_polled() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let rules = ["SETUSER", "limited", "on", ">pw", "~*", "&*", "+@all", "-client|tracking"];
    let () = redis::cmd("ACL").arg(&rules).query_async(&mut redis).await.unwrap();
    let url = format!("{}?user=limited&pass=pw", server.url());
    let broker = RedisBroker::connect(&url, patient()).await.unwrap();
    let (begun, before) = (Instant::now(), connections(&mut redis).await);
    let queues = [queue()];
    let (woken, ()) =
        soon(async { tokio::join!(broker.wait_for_work(&queues, Quarantined::All, HOUR), put(&broker, &["a"])) }).await;
    woken.unwrap();
    assert_eq!(tracked_keys(&mut redis).await, 0);
    let pings = calls_by_command(&mut redis).await.of("ping");
    assert_eq!(broker.ready(&queues, Quarantined::All).await.unwrap(), queues);
    assert_eq!(take(&broker, &member("me"), 1).await.len(), 1);
    assert!(broker.ready(&queues, Quarantined::All).await.unwrap().is_empty());
    assert_eq!(calls_by_command(&mut redis).await.of("ping"), pings, "there are no announcements to catch up with");
    let mut delayed = task("delayed");
    delayed.when = When::In(Duration::from_millis(300));
    let (placed, ()) = tokio::join!(broker.enqueue(vec![delayed]), forward_when_due(&broker));
    placed[0].as_ref().unwrap();
    assert_eq!(ids(&take(&broker, &member("me"), 1).await), ["delayed"]);
    // Housekeeping asks anew each time, too.
    let policies = [ArchivePolicy { queue: queue(), max_age: HOUR, max_size: 10 }];
    let () = redis.zadd("asynq:{default}:lease", "delayed", 1).await.unwrap();
    for _ in 0..2 {
        broker.until_lapse(&queues).await.unwrap();
        broker.worth_cleaning(&policies).await.unwrap();
        broker.worth_aggregating(&queues).await.unwrap();
    }
    let recovered = broker.recover(&queues).await.unwrap();
    assert_eq!(recovered.tasks.iter().map(|(_, id)| id.as_str()).collect::<Vec<_>>(), ["delayed"]);
    // Two connections are refused, each once a minute; the one that fetches is not.
    let opened = connections(&mut redis).await - before;
    let allowed = 4 + 2 * (begun.elapsed().as_secs() / 60);
    assert!(opened <= allowed, "{opened} connections were opened, {allowed} may be");
}
