//! A Redis behind a slow network: a timeout is about silence, and large answers only take longer.

use std::time::Duration;

use asynq_runtime::{
    Bytes,
    broker::{
        BrokerErrorKind, BulkAction, Consume as _, Inspect as _, Member, NewTask, Produce as _, Repair as _, Run,
        ServerName, Settle as _, TaskEnd, Wanted,
        redis::{RedisBroker, RedisOptions},
    },
    clock::ManualClock,
    task::TaskState,
};
use asynq_tests::{
    Build as _, NetworkOptions, Persistence, RedisServer, SlowNetwork, default_queue, eventually, queue, soon, task,
    task_id,
};
use chrono::Utc;
use redis::Commands as _;

/// 200 kB a second.
const SLOW: NetworkOptions = NetworkOptions { bits_per_second: 1_600_000, round_trip: Duration::from_millis(20) };
/// Three seconds on that network.
const LARGE: usize = 600_000;
/// A third of the time for `LARGE`.
const CALL_TIMEOUT: Duration = Duration::from_secs(1);

async fn over(network: &SlowNetwork) -> RedisBroker {
    let mut options = RedisOptions::default();
    options.call_timeout = CALL_TIMEOUT;
    RedisBroker::connect(&network.url(), options).await.unwrap()
}

fn member() -> Member {
    let name = ServerName { host: "h".into(), pid: 1, server_id: "s".into() };
    Member { name, number: 0 }
}

fn large(id: &str) -> NewTask {
    let mut large = task(id);
    large.message.payload = Bytes::from(vec![b'x'; LARGE]);
    large
}

fn wanted(n: usize) -> [Wanted; 1] {
    [Wanted { queue: default_queue(), n }]
}

fn ids(runs: &[Run]) -> Vec<&str> {
    runs.iter().map(|run| run.key.id.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_takes_longer_than_the_time_out_arrives_and_is_stored() {
    let server = RedisServer::start(Persistence::None);
    let network = SlowNetwork::to(server.port(), SLOW).await;
    let (broker, beside) = (over(&network).await, super::connect(&server.url()).await.unwrap());
    // The way to Redis, and back on the broker's own connection and on the caller's. The network also falls silent while a busy
    // machine does not run the test.
    for round in ["shared", "own", "own again"] {
        eventually("the task is stored", async || {
            let stored = broker.enqueue(vec![large(round)]).await.remove(0);
            if stored.is_err() {
                // The task is stored already if only the answer was lost.
                let _ = beside.change_task(&default_queue(), &task_id(round), None, BulkAction::Delete).await;
            }
            stored.ok()
        })
        .await;
        // A task whose answer was lost comes with the next call.
        let runs = eventually("the task arrives", async || {
            broker.dequeue(&member(), &wanted(1)).await.ok().filter(|runs| !runs.is_empty())
        })
        .await;
        assert_eq!((ids(&runs), runs[0].crashes), (vec![round], 0));
        assert_eq!(runs[0].message.as_ref().unwrap().payload.len(), LARGE);
    }
    assert!(network.carried() > 6 * LARGE as u64);
    assert_eq!(beside.queue_stats(&default_queue()).await.unwrap().active, 3, "each was stored and taken once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_falls_silent_is_noticed_and_nothing_of_its_tasks_is_lost() {
    let server = RedisServer::start(Persistence::None);
    let network = SlowNetwork::to(server.port(), SLOW).await;
    let (broker, producer) = (over(&network).await, super::connect(&server.url()).await.unwrap());
    for id in ["a", "b", "c"] {
        producer.enqueue(vec![large(id)]).await.remove(0).unwrap();
    }
    let before = network.carried();
    let me = member();
    let three = wanted(3);
    let taking = broker.dequeue(&me, &three);
    let frozen = async {
        // In the middle of the answer.
        eventually("part of the answer came", async || (network.carried() > before + 100_000).then_some(())).await;
        network.freeze();
    };
    let (lost, ()) = tokio::join!(soon(taking), frozen);
    assert_eq!(lost.unwrap_err().kind(), BrokerErrorKind::Timeout);
    network.thaw();
    // Tasks of another queue do not wait for the lost answer, and no task of the lost answer has begun.
    producer.enqueue(vec![task("d").in_queue("elsewhere")]).await.remove(0).unwrap();
    let both = [three[0].clone(), Wanted { queue: queue("elsewhere"), n: 1 }];
    let mut taken = Vec::new();
    eventually("everything is taken", async || {
        if let Ok(runs) = broker.dequeue(&me, &both).await {
            assert!(runs.iter().all(|run| run.crashes == 0), "{runs:?}");
            taken.extend(ids(&runs).into_iter().map(str::to_owned));
        }
        (taken.len() >= 4).then_some(())
    })
    .await;
    taken.sort();
    assert_eq!(taken, ["a", "b", "c", "d"], "each once");
}

/// Nothing tells the waiter: its connection is not closed, and the announcement of the end is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_for_an_end_finds_out_that_its_connection_carries_nothing_more() {
    let server = RedisServer::start(Persistence::None);
    let network = SlowNetwork::to(server.port(), SLOW).await;
    let (broker, beside) = (over(&network).await, super::connect(&server.url()).await.unwrap());
    beside.enqueue(vec![task("t")]).await.remove(0).unwrap();
    let wait = async |limit| broker.wait_for_end(&default_queue(), &task_id("t"), limit).await;
    let mut redis = server.connection();
    let ends = async {
        eventually("the waiter has asked", async || {
            let info: String = redis::cmd("INFO").arg("stats").query(&mut redis).unwrap();
            info.contains("tracking_total_keys:1\r").then_some(())
        })
        .await;
        // The answer to this question comes on the same connection, behind the answer to the first one.
        let seen = eventually("the waiter is answered", async || wait(Duration::ZERO).await.ok()).await;
        assert_eq!(seen, TaskEnd::NotYet(TaskState::Pending));
        network.forget_connections();
        let () = redis.hset("asynq:{default}:t:t", "state", "completed").unwrap();
    };
    let (end, ()) = tokio::join!(wait(Duration::from_secs(60)), ends);
    assert!(matches!(&end, Ok(TaskEnd::Stored(found)) if found.id == "t"), "{end:?}");
}

/// The bytes of an answer may come steadily for longer than a lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_of_a_task_whose_answer_is_still_coming_is_extended() {
    let server = RedisServer::start(Persistence::None);
    let network = SlowNetwork::to(server.port(), SLOW).await;
    let clock = ManualClock::new(Utc::now());
    let mut options = RedisOptions::with_clock(clock.clone());
    options.call_timeout = CALL_TIMEOUT;
    let broker = RedisBroker::connect(&network.url(), options).await.unwrap();
    let producer = super::connect(&server.url()).await.unwrap();
    let (me, one, mut redis) = (member(), wanted(1), server.connection());
    let mut lease = || -> Option<f64> { redis.zscore("asynq:{default}:lease", "t").unwrap() };
    // The first dequeue uses a connection that does not notice a part of an answer, and a busy machine may delay a
    // later one: then the task is requeued.
    eventually("a lease is extended while its task is on its way", async || {
        // The task is stored already if it was requeued.
        let _ = producer.enqueue(vec![large("t")]).await;
        let before = network.carried();
        let extends = async {
            // This part of the answer takes a second at least.
            eventually("part of the answer came", async || (network.carried() > before + 200_000).then_some(())).await;
            let taken = lease();
            clock.advance(Duration::from_secs(10));
            let released = broker.release_unanswered(&me, CALL_TIMEOUT / 2).await.unwrap();
            released.is_empty() && lease() == taken.map(|taken| taken + 10.0)
        };
        let (runs, is_extended) = soon(async { tokio::join!(broker.dequeue(&me, &one), extends) }).await;
        for run in runs.iter().flatten() {
            assert_eq!((run.key.id.as_str(), run.crashes), ("t", 0));
            broker.settle(&[super::ended(run)]).await.remove(0).unwrap();
        }
        (is_extended && runs.is_ok_and(|runs| runs.len() == 1)).then_some(())
    })
    .await;
}
