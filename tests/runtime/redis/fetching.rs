//! The connection that a fetcher drives: its life, the calls on it that fail, and callers that are held up.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::{
    broker::{
        Action, Broker, BrokerErrorKind, Consume, Inspect, Maintain, Quarantined, Settle, Settled, Wanted,
        redis::RedisBroker,
    },
    task::QueueName,
};
use asynq_test_support::{eventually, eventually_blocking, soon};
use asynq_tests::BlockedWorker;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Runtime;

use super::{
    caller_driven::{caller_driven_ids, last_command},
    server::{BRIEF, Proxy, Server, in_time, patient},
    tasks::*,
};

/// Fetches, in vain, until a fetch has a connection of its own; returns its id.
pub(crate) async fn warm(broker: &RedisBroker, redis: &mut MultiplexedConnection) -> i64 {
    warm_after(broker, redis, 0).await
}

/// Warms up as [`warm`] does, for the connection that comes after the one with the id `gone`, if it has not come already.
async fn warm_after(broker: &RedisBroker, redis: &mut MultiplexedConnection, gone: i64) -> i64 {
    eventually("the broker opens a connection", async || {
        assert!(take(broker, &member("me"), 1).await.is_empty());
        let id = caller_driven_ids(redis).await.into_iter().find(|id| *id > gone)?;
        (last_command(redis, id).await == "evalsha").then_some(id)
    })
    .await
}

fn one() -> [Wanted; 1] {
    [Wanted { queue: queue(), n: 1 }]
}

async fn active(broker: &RedisBroker) -> u64 {
    broker.queue_stats(&queue()).await.unwrap().active
}

/// Waits until Redis has run the fetch of a task.
async fn until_taken(broker: &RedisBroker) {
    eventually("Redis has run the fetch", async || (active(broker).await > 0).then_some(())).await;
}

#[test]
fn fetchers_of_two_runtimes_take_no_connection_from_each_other() {
    let (one, two) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let fetch = async |broker: &RedisBroker| assert!(take(broker, &member("me"), 1).await.is_empty());
    let server = Server::start(&[]);
    let (mut redis, broker) = two.block_on(async { (server.foreign().await, server.broker().await) });
    let ids = |redis: &mut MultiplexedConnection| two.block_on(caller_driven_ids(redis));
    let of_one = eventually_blocking("the first runtime gets a connection", || {
        one.block_on(fetch(&broker));
        Some(ids(&mut redis)).filter(|ids| !ids.is_empty())
    });
    for _ in 0..20 {
        one.block_on(fetch(&broker));
        two.block_on(fetch(&broker));
    }
    assert_eq!(ids(&mut redis), of_one);
}

#[tokio::test]
async fn a_fetcher_uses_a_connection_of_its_own_with_the_same_answers() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, producer) = (server.broker().await, server.broker().await);
    assert!(broker.dequeues_beside_jobs());
    let id = warm(&broker, &mut redis).await;
    put(&producer, &["a", "b", "c"]).await;
    let runs = take(&broker, &member("me"), 2).await;
    assert_eq!(ids(&runs), ["a", "b"]);
    assert_eq!(settle(&broker, &runs[0], Action::Done).await, Settled::Ok);
    // Another client ended the connection, and the script is forgotten: the call goes another way.
    let () = redis::cmd("CLIENT").arg("KILL").arg("ID").arg(id).query_async(&mut redis).await.map(|_: i64| ()).unwrap();
    let () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut redis).await.unwrap();
    assert_eq!(ids(&take(&broker, &member("me"), 5).await), ["c"]);
    assert!(!caller_driven_ids(&mut redis).await.contains(&id));
    warm_after(&broker, &mut redis, id).await;
    broker.close().await;
    let closed = broker.dequeue(&member("me"), &one()).await.unwrap_err();
    assert_eq!(closed.kind(), BrokerErrorKind::Closed);
    eventually("no connection is left", async || caller_driven_ids(&mut redis).await.is_empty().then_some(())).await;
}

#[tokio::test]
async fn a_fetch_that_redis_refused_costs_no_connection() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, producer) = (server.broker().await, server.broker().await);
    let id = warm(&broker, &mut redis).await;
    put(&producer, &["a"]).await;
    let () = redis::cmd("SET").arg("asynq:{default}:active").arg("foreign").query_async(&mut redis).await.unwrap();
    for _ in 0..3 {
        let refused = broker.dequeue(&member("me"), &one()).await.unwrap_err();
        assert_eq!(refused.kind(), BrokerErrorKind::Corrupt, "{refused:?}");
    }
    let () = redis::cmd("DEL").arg("asynq:{default}:active").query_async(&mut redis).await.map(|_: i64| ()).unwrap();
    assert_eq!(ids(&take(&broker, &member("me"), 1).await), ["a"]);
    assert!(caller_driven_ids(&mut redis).await.contains(&id));
}

/// The answer to a dequeue is lost on this connection.
#[tokio::test]
async fn the_task_of_a_lost_answer_comes_with_the_next_call() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let proxy = Proxy::before(&server);
    let broker = RedisBroker::connect(&proxy.url(), in_time(BRIEF)).await.unwrap();
    let producer = server.broker().await;
    let mut id = 0;
    for round in ["0", "1", "2"] {
        id = warm_after(&broker, &mut redis, id).await;
        put(&producer, &[round]).await;
        proxy.lose_answers(1);
        let lost = broker.dequeue(&member("me"), &one()).await.unwrap_err();
        assert!(lost.is_unavailable(), "{lost:?}");
        assert_eq!((proxy.still_to_lose(), active(&producer).await), (0, 1));
        let run = take(&broker, &member("me"), 1).await.remove(0);
        assert_eq!((run.key.id.as_str(), run.crashes), (round, 0));
        assert_eq!(settle(&broker, &run, Action::Done).await, Settled::Ok);
        assert!(!caller_driven_ids(&mut redis).await.contains(&id));
    }
}

/// A dequeue that was sent here arrives when its tasks have been looked for: it must not run any more.
#[tokio::test]
async fn a_fetch_that_redis_reads_late_takes_nothing() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let proxy = Proxy::before(&server);
    let broker = RedisBroker::connect(&proxy.url(), in_time(BRIEF)).await.unwrap();
    let producer = server.broker().await;
    warm(&broker, &mut redis).await;
    put(&producer, &["late"]).await;
    proxy.hold_back();
    assert!(broker.dequeue(&member("me"), &one()).await.unwrap_err().is_unavailable());
    let released = broker.release_unanswered(&member("me"), Duration::from_secs(60)).await.unwrap();
    assert!(released.is_empty(), "it was never run: {released:?}");
    proxy.release().await;
    assert_eq!((active(&producer).await, ids(&take(&broker, &member("me"), 1).await)), (0, vec!["late"]));
}

#[tokio::test]
async fn a_fetch_that_is_held_up_is_released_and_returns_nothing() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, producer) = (server.broker().await, server.broker().await);
    let me = member("me");
    warm(&broker, &mut redis).await;
    put(&producer, &["a", "b"]).await;
    let wanted = one();
    let mut held_up = pin!(broker.dequeue(&me, &wanted));
    server.send(held_up.as_mut());
    until_taken(&producer).await;
    assert!(broker.release_unanswered(&me, Duration::from_secs(60)).await.unwrap().is_empty(), "it is not late");
    let released = broker.release_unanswered(&me, Duration::ZERO).await.unwrap();
    assert_eq!(released.iter().map(|(_, id)| id.as_str()).collect::<Vec<_>>(), ["a"]);
    assert!(broker.release_unanswered(&me, Duration::ZERO).await.unwrap().is_empty(), "once is enough");
    // The connection was ended, or the answer had come: either way the task is not here.
    if let Ok(runs) = held_up.await {
        assert!(runs.is_empty(), "{runs:?}");
    }
    let runs = take(&broker, &me, 2).await;
    assert_eq!(ids(&runs), ["a", "b"], "at the head, as if no worker had taken it");
    assert_eq!(runs[0].crashes, 0);
}

#[tokio::test]
async fn a_fetch_that_is_dropped_leaves_its_task_to_the_first_that_asks() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, producer) = (server.broker().await, server.broker().await);
    let me = member("me");
    let mut id = 0;
    for round in 0..4 {
        id = warm_after(&broker, &mut redis, id).await;
        put(&producer, &["t"]).await;
        let wanted = one();
        let mut dropped = Box::pin(broker.dequeue(&me, &wanted));
        server.send(dropped.as_mut());
        until_taken(&producer).await;
        drop(dropped);
        if round % 2 == 0 {
            let released = broker.release_unanswered(&me, Duration::from_secs(60)).await.unwrap();
            assert_eq!((released.len(), released[0].1.as_str()), (1, "t"));
        }
        let runs = take(&broker, &me, 1).await;
        assert_eq!(runs[0].crashes, 0);
        assert_eq!(ids(&runs), ["t"]);
        assert_eq!(settle(&broker, &runs[0], Action::Done).await, Settled::Ok);
        assert!(!caller_driven_ids(&mut redis).await.contains(&id));
    }
}

/// Returns the ids of the connections that are notified of changes, and of the others of the third protocol.
async fn listening(redis: &mut MultiplexedConnection) -> (Vec<i64>, Vec<i64>) {
    let list: String = redis::cmd("CLIENT").arg("LIST").query_async(redis).await.unwrap();
    let word = |line: &str, name: &str| line.split(' ').find_map(|word| word.strip_prefix(name).map(str::to_owned));
    let third = list.lines().filter(|line| word(line, "resp=").is_some_and(|resp| resp == "3"));
    let (notified, others): (Vec<&str>, Vec<&str>) =
        third.partition(|line| word(line, "flags=").is_some_and(|flags| flags.contains('t')));
    let ids = |lines: Vec<&str>| lines.into_iter().map(|line| word(line, "id=").unwrap().parse().unwrap()).collect();
    (ids(notified), ids(others))
}

/// Returns the id of the connection that all other kinds of waits share.
async fn shared(broker: &RedisBroker, redis: &mut MultiplexedConnection) -> i64 {
    broker.wait_for_due(&[queue()], Duration::ZERO).await.unwrap();
    listening(redis).await.0[0]
}

/// Waits, in vain, until a wait has a connection of its own; returns its id.
async fn warm_wait(broker: &RedisBroker, redis: &mut MultiplexedConnection, shared: i64) -> i64 {
    eventually("a wait has a connection of its own", async || {
        broker.wait_for_work(&[queue()], Quarantined::All, Duration::from_millis(1)).await.unwrap();
        let own = listening(redis).await.0.into_iter().find(|id| *id != shared)?;
        (last_command(redis, own).await == "exists").then_some(own)
    })
    .await
}

async fn kill(redis: &mut MultiplexedConnection, id: i64) {
    let killed: i64 = redis::cmd("CLIENT").arg("KILL").arg("ID").arg(id).query_async(redis).await.unwrap();
    assert_eq!(killed, 1);
}

#[tokio::test]
async fn a_repeated_wait_is_notified_of_a_new_task_on_its_own_connection_and_of_no_old_one() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, producer) = (server.broker().await, server.broker().await);
    let shared = shared(&broker, &mut redis).await;
    let id = warm_wait(&broker, &mut redis, shared).await;
    for task in ["a", "b", "c"] {
        let queues = [queue()];
        let enqueued = async {
            until_tracked(&mut server.foreign().await, 2).await;
            put(&producer, &[task]).await;
        };
        let (woken, ()) =
            soon(async { tokio::join!(broker.wait_for_work(&queues, Quarantined::All, HOUR), enqueued) }).await;
        woken.unwrap();
        let last = last_command(&mut redis, id).await;
        assert!(["exists", "llen"].contains(&last.as_str()), "{last}");
        assert_eq!(ids(&take(&broker, &member("me"), 1).await), [task]);
        // A task that has come and gone since the last wait is not a notification.
        broker.wait_for_work(&queues, Quarantined::All, Duration::ZERO).await.unwrap();
        let gone = format!("gone with {task}");
        put(&producer, &[&gone]).await;
        assert_eq!(ids(&take(&broker, &member("me"), 1).await), [gone.as_str()]);
        // Redis answers this after it has sent the announcements of the old task, so they have arrived.
        let _: String = redis::cmd("PING").query_async(&mut redis).await.unwrap();
        let (begun, limit) = (Instant::now(), Duration::from_millis(100));
        broker.wait_for_work(&queues, Quarantined::All, limit).await.unwrap();
        assert!(begun.elapsed() >= limit, "the wait was woken for {gone}, which is an old task");
    }
}

#[tokio::test]
async fn a_wait_ends_with_its_connection_and_with_that_of_the_broker() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let shared = shared(&broker, &mut redis).await;
    for (kills_own, queue_of_round) in [(true, "first"), (false, "second")] {
        let own = warm_wait(&broker, &mut redis, shared).await;
        // No other wait asks for this queue: keys that are tracked from here on are those of this wait, and nothing wakes it.
        let (queues, before) = ([QueueName::new(queue_of_round).unwrap()], tracked_keys(&mut redis).await);
        let killed = async {
            until_tracked(&mut redis, before + 2).await;
            let others = listening(&mut redis).await.1;
            for id in if kills_own { vec![own] } else { others } {
                kill(&mut redis, id).await;
            }
        };
        let (woken, ()) =
            soon(async { tokio::join!(broker.wait_for_work(&queues, Quarantined::All, HOUR), killed) }).await;
        woken.unwrap();
        // The connection ends before the wait, as with a Redis that ended.
        let own = warm_wait(&broker, &mut redis, shared).await;
        kill(&mut redis, own).await;
        put(&broker, &[queue_of_round]).await;
        assert_eq!(soon(broker.wait_for_work(&[queue()], Quarantined::All, HOUR)).await.unwrap(), [queue()]);
        assert_eq!(ids(&take(&broker, &member("me"), 1).await), [queue_of_round]);
    }
    let own = warm_wait(&broker, &mut redis, shared).await;
    let (queues, before) = ([QueueName::new("third").unwrap()], tracked_keys(&mut redis).await);
    let closed = async {
        until_tracked(&mut redis, before + 2).await;
        broker.close().await;
    };
    let (woken, ()) = soon(async { tokio::join!(broker.wait_for_work(&queues, Quarantined::All, HOUR), closed) }).await;
    assert_eq!(woken.unwrap_err().kind(), BrokerErrorKind::Closed);
    let is_closed = async || (!listening(&mut redis).await.0.contains(&own)).then_some(());
    eventually("the connection of the wait is closed", is_closed).await;
}

/// A third of the lease may pass before the heartbeat runtime extends it, and a busy machine may be late for that by several
/// seconds.
const LEASE: Duration = Duration::from_secs(12);

/// Starts a worker that is blocked while a fetch is on its way on a connection of its own; returns the producer, too.
async fn blocked() -> (Server, RedisBroker, BlockedWorker) {
    let (server, broker, mut redis) = Server::with_broker().await;
    let mut options = patient();
    options.lease = LEASE;
    let mut worker = BlockedWorker::start(Arc::new(server.broker_with(options).await)).await;
    // The fetches go another way until there is a connection for them. The producer has one, too.
    let mut n = 0;
    eventually("worker and producer have connections", async || {
        // Eight calls in a row, with little time between them.
        for _ in 0..8 {
            n += 1;
            put(&broker, &[&format!("warm{n}")]).await;
        }
        soon(worker.running.signals().settled.reached(n)).await;
        let mut ready = 0;
        for id in caller_driven_ids(&mut redis).await {
            ready += usize::from(last_command(&mut redis, id).await == "evalsha");
        }
        (ready == 2).then_some(())
    })
    .await;
    worker.ran.lock().unwrap().clear();
    // No task is fetched while the queue is paused, so no fetch finds fewer tasks than it asks for.
    assert!(broker.pause(&queue()).await.unwrap());
    let names = BlockedWorker::names();
    put(&broker, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert!(broker.resume(&queue()).await.unwrap());
    worker.is_blocked().await;
    (server, broker, worker)
}

/// If the only thread for jobs is blocked, the tasks of a fetch that it has not read go to others before a lease is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn tasks_that_a_blocked_worker_did_not_start_are_requeued_in_time() {
    let (_server, broker, BlockedWorker { running, jobs, gate, ran, .. }) = blocked().await;
    let (all, names) = (BlockedWorker::ALL, BlockedWorker::names());
    // The second turn from here on begins when the fetch has been under way for long enough.
    let extended = running.signals().extended.count();
    soon(running.signals().extended.reached(extended + 2)).await;
    let others = member("other");
    let runs = take(&broker, &others, all).await;
    let started = all - runs.len();
    assert!(started > 0, "the worker has those that it started");
    assert_eq!(ids(&runs), names[started..]);
    assert!(runs.iter().all(|run| run.crashes == 0), "no worker died");
    // The tasks are settled together, because their leases are not extended.
    let done: Vec<_> = runs.iter().map(|run| settlement(run, Action::Done)).collect();
    let settled = broker.settle(&done).await;
    assert!(settled.iter().all(|settled| matches!(settled, Ok(Settled::Ok))), "{settled:?}");
    // This takes longer than a lease, which the heartbeat runtime extends.
    let extended = running.signals().extended.count();
    soon(running.signals().extended.reached(extended + 4)).await;
    drop(gate);
    let is_empty = async || (broker.queue_stats(&queue()).await.unwrap().size == 0).then_some(());
    eventually("the queue is empty", is_empty).await;
    let mut ran = std::mem::take(&mut *ran.lock().unwrap());
    ran.sort();
    assert_eq!(ran, names[..started], "each once, and no requeued task");
    assert_eq!(running.signals().lost.count(), 0);
    soon(running.shutdown()).await.unwrap();
    jobs.shutdown_background();
}
