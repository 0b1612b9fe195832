//! The connection that a lone caller's own task drives: how it begins and ends, and calls on it that fail.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::broker::{
    Action, Broker, BrokerErrorKind, Consume, Inspect, NewTask, Produce, Quarantined, Refused, Settled, UniqueLock,
    redis::RedisBroker,
};
use asynq_test_support::{eventually, eventually_blocking, soon};
use redis::aio::MultiplexedConnection;
use tokio::runtime::Runtime;

use super::{
    server::{BRIEF, Proxy, Server, in_time, patient},
    tasks::*,
};

/// Returns the ids of the connections that callers drive: the only ones of the second protocol where the server has the third, but for
/// `redis` itself.
pub(crate) async fn caller_driven_ids(redis: &mut MultiplexedConnection) -> Vec<i64> {
    let own: i64 = redis::cmd("CLIENT").arg("ID").query_async(redis).await.unwrap();
    let list: String = redis::cmd("CLIENT").arg("LIST").query_async(redis).await.unwrap();
    let old = list.lines().filter(|line| line.split(' ').any(|word| word == "resp=2"));
    let ids = old.filter_map(|line| line.split(' ').find_map(|word| word.strip_prefix("id=")?.parse().ok()));
    ids.filter(|id| *id != own).collect()
}

/// Waits until Redis has closed the caller's connection of this id.
pub(crate) async fn until_closed(redis: &mut MultiplexedConnection, id: i64) {
    eventually("the connection is closed", async || (!caller_driven_ids(redis).await.contains(&id)).then_some(()))
        .await;
}

/// Enqueues one by one until there is such a connection; returns its id and how many tasks there are now.
async fn warm(broker: &RedisBroker, redis: &mut MultiplexedConnection) -> (i64, usize) {
    warm_after(broker, redis, 0).await
}

/// Warms up as [`warm`] does, for the connection that comes after the one with the id `gone`, if it has not come already.
async fn warm_after(broker: &RedisBroker, redis: &mut MultiplexedConnection, gone: i64) -> (i64, usize) {
    let mut n = 0;
    let id = eventually("the broker opens a connection", async || {
        // Eight calls in a row, with little time between them.
        for _ in 0..8 {
            n += 1;
            put(broker, &[&format!("warm{gone}-{n}")]).await;
        }
        // The connection is of use only after its greeting, which ends with the question whether it may kill.
        let id = caller_driven_ids(redis).await.into_iter().find(|id| *id > gone)?;
        (last_command(redis, id).await == "evalsha").then_some(id)
    });
    (id.await, n)
}

pub(crate) async fn last_command(redis: &mut MultiplexedConnection, id: i64) -> String {
    let list: String = redis::cmd("CLIENT").arg("LIST").arg("ID").arg(id).query_async(redis).await.unwrap();
    list.split(' ').find_map(|word| word.strip_prefix("cmd=")).unwrap_or_default().to_owned()
}

pub(crate) async fn pending(broker: &RedisBroker) -> usize {
    usize::try_from(broker.queue_stats(&queue()).await.unwrap().pending).unwrap()
}

#[tokio::test]
async fn sequential_enqueues_use_a_caller_driven_connection_with_the_same_answers() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let (id, n) = warm(&broker, &mut redis).await;
    put(&broker, &["a"]).await;
    put(&broker, &["b", "c"]).await;
    put(&broker, &["d"]).await;
    assert_eq!(last_command(&mut redis, id).await, "evalsha");
    let order: Vec<String> =
        redis::cmd("LRANGE").arg("asynq:{default}:pending").arg(0).arg(3).query_async(&mut redis).await.unwrap();
    assert_eq!(order, ["d", "c", "b", "a"]);

    let theirs = |id: &str| NewTask { id_is_ours: false, ..task(id) };
    let taken = broker.enqueue(vec![theirs("a")]).await.remove(0);
    assert!(matches!(taken, Err(Refused::IdConflict)), "{taken:?}");
    let unique = |id: &str| {
        let unique = Some(UniqueLock { key: "asynq:{default}:unique:email:x".into(), ttl: Duration::from_secs(60) });
        NewTask { unique, ..task(id) }
    };
    broker.enqueue(vec![unique("u1")]).await.remove(0).unwrap();
    let refused = broker.enqueue(vec![unique("u2")]).await.remove(0);
    assert!(matches!(&refused, Err(Refused::Duplicate { holder: Some(id) }) if *id == "u1"), "{refused:?}");
    assert_eq!((pending(&broker).await, caller_driven_ids(&mut redis).await), (n + 5, vec![id]));
}

/// In one write, many of them take longer than a call may over a slow network.
#[tokio::test]
async fn large_tasks_of_a_lone_caller_are_sent_in_parts_on_the_connection_of_all_callers() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let (id, n) = warm(&broker, &mut redis).await;
    // The next script is sent as a whole, by `EVAL`.
    let () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut redis).await.unwrap();
    let large = |id: &str, bytes: usize| {
        let mut large = task(id);
        large.message.payload = vec![b'x'; bytes].into();
        large
    };
    let alone = vec![large("alone", 5 << 20)];
    for call in [alone, ["a", "b", "c", "d", "e"].map(|id| large(id, 1 << 20)).into()] {
        for outcome in broker.enqueue(call).await {
            outcome.unwrap();
        }
    }
    assert_eq!((last_command(&mut redis, id).await, pending(&broker).await), ("evalsha".to_owned(), n + 6));
}

/// One call is held up on the caller-driven connection, and the next one, beside it, does not wait.
#[tokio::test]
async fn no_call_waits_for_a_caller_that_is_not_polled() {
    let (server, broker, mut redis) = Server::with_broker().await;
    let (id, n) = warm(&broker, &mut redis).await;
    let mut held_up = pin!(broker.enqueue(vec![task("held up")]));
    server.send(held_up.as_mut());
    for other in ["a", "b", "c"] {
        put(&broker, &[other]).await;
    }
    held_up.await.remove(0).unwrap();
    assert_eq!((pending(&broker).await, caller_driven_ids(&mut redis).await), (n + 4, vec![id]));
}

#[tokio::test]
async fn a_caller_that_goes_away_takes_its_connection_along() {
    let (server, broker, mut redis) = Server::with_broker().await;
    let (id, n) = warm(&broker, &mut redis).await;
    let mut call = Box::pin(broker.enqueue(vec![task("dropped")]));
    server.send(call.as_mut());
    drop(call);
    put(&broker, &["next"]).await;
    until_closed(&mut redis, id).await;
    let stored = pending(&broker).await;
    assert!((n + 1..=n + 2).contains(&stored), "the dropped one is stored once or not at all: {stored} after {n}");
}

/// A task is stored on this connection, its answer lost, and the task run and deleted before the call is repeated.
#[tokio::test]
async fn a_call_whose_answer_was_lost_is_not_stored_again_after_its_task_has_run() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let proxy = Proxy::before(&server);
    let broker = RedisBroker::connect(&proxy.url(), in_time(BRIEF)).await.unwrap();
    let worker = server.broker().await;
    let me = member("w");
    let mut gone = 0;
    for round in 0..3 {
        let (id, n) = warm_after(&broker, &mut redis, gone).await;
        gone = id;
        assert_eq!(take(&worker, &me, n).await.len(), n);
        let id = format!("lost{round}");
        proxy.lose_answers(1);
        let work = async {
            loop {
                worker.wait_for_work(&[queue()], Quarantined::All, HOUR).await.unwrap();
                if let Some(run) = take(&worker, &me, 1).await.pop() {
                    return settle(&worker, &run, Action::Done).await;
                }
            }
        };
        let one = [id.as_str()];
        let ((), settled) = soon(async { tokio::join!(put(&broker, &one), work) }).await;
        assert_eq!((settled, proxy.still_to_lose(), pending(&worker).await), (Settled::Ok, 0, 0));
        let _: () = redis::cmd("FLUSHALL").query_async(&mut redis).await.unwrap();
    }
}

/// A call that was sent here arrives when its repeat has been answered: it must not take effect any more.
#[tokio::test]
async fn a_call_that_redis_reads_late_is_not_stored_again() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let proxy = Proxy::before(&server);
    let broker = RedisBroker::connect(&proxy.url(), in_time(BRIEF)).await.unwrap();
    let worker = server.broker().await;
    let (id, n) = warm(&broker, &mut redis).await;
    assert_eq!(take(&worker, &member("w"), n).await.len(), n);
    proxy.hold_back();
    let began = Instant::now();
    put(&broker, &["late"]).await;
    assert!(began.elapsed() >= BRIEF, "it was answered at once");
    let run = take(&worker, &member("w"), 1).await.remove(0);
    assert_eq!(settle(&worker, &run, Action::Done).await, Settled::Ok);
    proxy.release().await;
    assert!(!caller_driven_ids(&mut redis).await.contains(&id));
    assert_eq!(pending(&worker).await, 0);
}

#[tokio::test]
async fn a_redis_that_stands_still_stores_each_task_once() {
    const LIMIT: Duration = Duration::from_secs(5);
    // The call times out twice, and is repeated once more.
    const STILL: Duration = Duration::from_millis(10_300);
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let broker = server.broker_with(in_time(LIMIT)).await;
    let (gone, n) = warm(&broker, &mut redis).await;
    let stopped = server.stop();
    tokio::join!(put_for_sure(&broker, "still"), async {
        tokio::time::sleep(STILL).await;
        drop(stopped);
    });
    let observer = server.broker().await;
    assert_eq!(pending(&observer).await, n + 1);
    // Redis now takes commands and does not run them.
    let (_, more) = warm_after(&broker, &mut redis, gone).await;
    let ms = u64::try_from(STILL.as_millis()).unwrap();
    let () = redis::cmd("CLIENT").arg("PAUSE").arg(ms).arg("ALL").query_async(&mut redis).await.unwrap();
    put_for_sure(&broker, "paused").await;
    assert_eq!(pending(&observer).await, n + more + 2);
}

/// Enqueues a task until the broker says that it is there. If the machine stands still as well, one call may take too long.
async fn put_for_sure(broker: &RedisBroker, id: &str) {
    let mut is_unsure = false;
    eventually("the task is there", async || match broker.enqueue(vec![task(id)]).await.remove(0) {
        Ok(_) => Some(()),
        Err(Refused::IdConflict) if is_unsure => Some(()),
        Err(Refused::Broker(error)) if error.is_unavailable() => {
            is_unsure = true;
            None
        }
        Err(other) => panic!("{other:?}"),
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_was_closed_while_it_was_idle_costs_no_call() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let (id, n) = warm(&broker, &mut redis).await;
    let () = redis::cmd("CLIENT").arg("KILL").arg("ID").arg(id).query_async(&mut redis).await.map(|_: i64| ()).unwrap();
    for next in ["a", "b"] {
        put(&broker, &[next]).await;
    }
    let () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut redis).await.unwrap();
    let (id, more) = warm_after(&broker, &mut redis, id).await;
    let () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut redis).await.unwrap();
    put(&broker, &["forgotten"]).await;
    assert_eq!(
        (caller_driven_ids(&mut redis).await, last_command(&mut redis, id).await),
        (vec![id], "eval".to_owned())
    );
    // An idle time-out of the server ends all connections without traffic.
    let () = redis::cmd("CLIENT")
        .arg("KILL")
        .arg("TYPE")
        .arg("normal")
        .query_async(&mut redis)
        .await
        .map(|_: i64| ())
        .unwrap();
    put(&broker, &["all"]).await;
    assert_eq!(pending(&broker).await, n + more + 4);
}

#[tokio::test]
async fn a_redis_that_starts_anew_is_used_again() {
    let mut server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let broker = server.broker().await;
    warm(&broker, &mut redis).await;
    server.restart();
    put(&broker, &["first"]).await;
    assert_eq!(pending(&broker).await, 1);
    let mut redis = server.foreign().await;
    let (_, n) = warm(&broker, &mut redis).await;
    assert_eq!(pending(&broker).await, n + 1);
}

#[test]
fn a_connection_belongs_to_one_runtime_and_ends_with_it() {
    let (one, two) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let (server, mut redis, broker) = two.block_on(async {
        let server = Server::start(&[]);
        let (redis, broker) = (server.foreign().await, Arc::new(server.broker().await));
        (server, redis, broker)
    });
    let ids = |redis: &mut MultiplexedConnection| two.block_on(caller_driven_ids(redis));
    assert!(ids(&mut redis).is_empty());
    // `redis` is served by the other runtime all the while.
    let (mut n, mut more) = (0, 0);
    eventually_blocking("the first runtime gets a connection", || {
        for _ in 0..8 {
            n += 1;
            one.block_on(put(&broker, &[&format!("one{n}")]));
        }
        (!ids(&mut redis).is_empty()).then_some(())
    });
    let of_one = ids(&mut redis);
    // Callers of two runtimes take turns: each is served, and no connection is taken away.
    for turn in 0..20 {
        one.block_on(put(&broker, &[&format!("a{turn}")]));
        two.block_on(put(&broker, &[&format!("b{turn}")]));
    }
    assert_eq!(ids(&mut redis), of_one);
    // The runtime of the connection is gone: callers of the other one go on, and get a connection.
    drop(one);
    eventually_blocking("the second runtime gets a connection", || {
        for _ in 0..8 {
            more += 1;
            two.block_on(put(&broker, &[&format!("two{more}")]));
        }
        let now = ids(&mut redis);
        (now != of_one && !now.is_empty()).then_some(())
    });
    assert_eq!(two.block_on(pending(&broker)), n + 40 + more);
    drop(server);
}

#[tokio::test]
async fn without_the_right_to_end_a_connection_there_is_none() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let () = redis::cmd("ACL")
        .arg(&["SETUSER", "jobs", "on", ">secret", "~*", "&*", "+@all", "-client|kill"])
        .query_async(&mut redis)
        .await
        .unwrap();
    let url = format!("{}?user=jobs&pass=secret", server.url());
    let broker = RedisBroker::connect(&url, patient()).await.unwrap();
    for n in 0..200 {
        put(&broker, &[&format!("t{n}")]).await;
        assert_ne!(last_of(&mut redis, "jobs").await, "evalsha", "a call was sent on a connection of its own");
    }
    assert_eq!(pending(&broker).await, 200);
}

/// Returns the last command of a caller's connection of this user.
async fn last_of(redis: &mut MultiplexedConnection, user: &str) -> String {
    for id in caller_driven_ids(redis).await {
        let list: String = redis::cmd("CLIENT").arg("LIST").arg("ID").arg(id).query_async(redis).await.unwrap();
        if list.contains(&format!("user={user}")) {
            return list.split(' ').find_map(|word| word.strip_prefix("cmd=")).unwrap_or_default().to_owned();
        }
    }
    String::new()
}

#[tokio::test]
async fn a_broker_that_is_closed_keeps_no_connection_and_opens_none() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    warm(&broker, &mut redis).await;
    broker.close().await;
    eventually("no connection is left", async || caller_driven_ids(&mut redis).await.is_empty().then_some(())).await;
    for n in 0..20 {
        let refused = broker.enqueue(vec![task(&format!("late{n}"))]).await.remove(0).unwrap_err();
        assert!(matches!(&refused, Refused::Broker(error) if error.kind() == BrokerErrorKind::Closed), "{refused:?}");
    }
    assert!(caller_driven_ids(&mut redis).await.is_empty());
}
