//! Lost answers, forgotten scripts, callers that go away.

use std::{sync::Arc, time::Duration};

use asynq_runtime::broker::{
    Action, Broker, Consume, Inspect, Maintain, NewTask, Produce, Quarantined, Replaces, Settle, Settled, Settlement,
    UniqueLock, Wanted, When,
    redis::{RedisBroker, RedisOptions},
};
use asynq_runtime::task::QueueName;
use asynq_test_support::{eventually, soon};
use redis::{AsyncCommands, Value, aio::MultiplexedConnection};

use super::{
    server::{BRIEF, Proxy, Server, in_time, patient},
    tasks::*,
};

#[tokio::test]
async fn scripts_that_redis_forgot_are_sent_again_and_only_those() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    for round in 0..20 {
        let () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut redis).await.unwrap();
        let names: Vec<String> = (0..150).map(|i| format!("{round}-{i}")).collect();
        put(&broker, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut redis).await.unwrap();
        let runs = take(&broker, &member("me"), 150).await;
        assert_eq!(ids(&runs), names);
        let () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut redis).await.unwrap();
        let batch: Vec<_> = runs.iter().map(|run| settlement(run, Action::Done)).collect();
        assert!(broker.settle(&batch).await.into_iter().all(|settled| settled.unwrap() == Settled::Ok));
    }
    let stats = broker.queue_stats(&queue()).await.unwrap();
    assert_eq!((stats.size, stats.processed_total), (0, 3000));
}

#[tokio::test]
async fn a_lost_answer_loses_and_doubles_nothing() {
    let server = Server::start(&[]);
    let proxy = Proxy::before(&server);
    let broker = RedisBroker::connect(&proxy.url(), patient()).await.unwrap();
    let direct = server.broker().await;
    let me = member("me");
    // Redis knows the scripts from here on, so that one write is one try.
    put(&direct, &["warm"]).await;
    let warm = take(&direct, &me, 1).await.remove(0);
    assert_eq!(settle(&direct, &warm, Action::Done).await, Settled::Ok);

    proxy.lose_answers(1);
    put(&broker, &["a", "b"]).await;
    assert_eq!(proxy.still_to_lose(), 0);
    assert_eq!(direct.queue_stats(&queue()).await.unwrap().pending, 2);

    proxy.lose_answers(1);
    let lost = broker.dequeue(&me, &[Wanted { queue: queue(), n: 1 }]).await.unwrap_err();
    assert!(lost.is_unavailable(), "{lost:?}");
    assert_eq!(direct.queue_stats(&queue()).await.unwrap().active, 1);
    let runs = take(&broker, &me, 1).await;
    assert_eq!(ids(&runs), ["a"], "the task of the lost answer comes first");
    assert_eq!(ids(&take(&broker, &me, 1).await), ["b"]);
    assert_eq!(direct.queue_stats(&queue()).await.unwrap().active, 2);

    proxy.lose_answers(1);
    let first = broker.settle(&[settlement(&runs[0], Action::Done)]).await.remove(0);
    assert!(first.unwrap_err().is_unavailable());
    let again = Settlement { resend: true, ..settlement(&runs[0], Action::Done) };
    assert_eq!(broker.settle(&[again]).await.remove(0).unwrap(), Settled::Ok);
    assert_eq!(direct.queue_stats(&queue()).await.unwrap().processed_total, 2);
}

#[tokio::test]
async fn tasks_whose_release_is_not_answered_either_come_each_once() {
    let server = Server::start(&[]);
    let proxy = Proxy::before(&server);
    let broker = RedisBroker::connect(&proxy.url(), patient()).await.unwrap();
    let direct = server.broker().await;
    let (me, wanted) = (member("me"), [Wanted { queue: queue(), n: 2 }]);
    // Redis knows the scripts of a dequeue and of a release from here on, so that one write is one try.
    put(&direct, &["warm"]).await;
    proxy.lose_answers(1);
    assert!(broker.dequeue(&me, &wanted).await.unwrap_err().is_unavailable());
    let warm = take(&broker, &me, 1).await.remove(0);
    assert_eq!(settle(&broker, &warm, Action::Done).await, Settled::Ok);
    put(&direct, &["a", "b"]).await;
    for (active, pending) in [(2, 0), (0, 2)] {
        proxy.lose_answers(1);
        assert!(broker.dequeue(&me, &wanted).await.unwrap_err().is_unavailable());
        let stats = direct.queue_stats(&queue()).await.unwrap();
        assert_eq!((stats.active, stats.pending), (active, pending));
    }
    let runs = take(&broker, &me, 2).await;
    assert_eq!(ids(&runs), ["a", "b"]);
    assert!(broker.release_unanswered(&me, Duration::ZERO).await.unwrap().is_empty());
    for run in &runs {
        assert_eq!((run.crashes, settle(&broker, run, Action::Done).await), (0, Settled::Ok));
    }
}

#[tokio::test]
async fn a_dequeue_after_a_lost_answer_asks_for_half_as_much() {
    let server = Server::start(&[]);
    let proxy = Proxy::before(&server);
    let broker = RedisBroker::connect(&proxy.url(), patient()).await.unwrap();
    let direct = server.broker().await;
    let (me, wanted) = (member("me"), [Wanted { queue: queue(), n: 12 }]);
    // Redis knows the script after this call, so the lost answer is not the one that the script is unknown.
    assert!(take(&broker, &me, 1).await.is_empty());
    let names: Vec<String> = (0..12).map(|n| format!("t{n:02}")).collect();
    for name in &names {
        let mut task = task(name);
        task.message.payload = vec![b'x'; 100_000].into();
        direct.enqueue(vec![task]).await.remove(0).unwrap();
    }
    proxy.lose_answers(1);
    assert!(broker.dequeue(&me, &wanted).await.unwrap_err().is_unavailable());
    assert_eq!(direct.queue_stats(&queue()).await.unwrap().active, 11, "a mebibyte");
    let first = take(&broker, &me, 12).await;
    assert_eq!(ids(&first), names[..6]);
    assert_eq!(direct.queue_stats(&queue()).await.unwrap().active, 6, "the others are pending again");
    let rest = take(&broker, &me, 12).await;
    assert_eq!(ids(&rest), names[6..]);
    assert!(first.iter().chain(&rest).all(|run| run.crashes == 0));
}

/// The messages are small and two queues of three are empty, so that no answer is nearly as long as all together may be.
#[tokio::test]
async fn a_dequeue_asks_for_full_answers_again_some_calls_after_an_outage() {
    let server = Server::start(&[]);
    let proxy = Proxy::before(&server);
    let broker = RedisBroker::connect(&proxy.url(), patient()).await.unwrap();
    let direct = server.broker().await;
    let me = member("me");
    let wanted = ["default", "empty", "empty_too"].map(|queue| Wanted { queue: QueueName::new(queue).unwrap(), n: 64 });
    // The broker asks for one half of a mebibyte, a half of that, and so on down to a kibibyte for the three scripts.
    for _ in 0..12 {
        broker.release_unanswered(&me, Duration::ZERO).await.unwrap();
        proxy.lose_answers(1);
        let lost = broker.dequeue(&me, &wanted).await.unwrap_err();
        assert!(lost.is_unavailable(), "{lost:?}");
    }
    let names: Vec<String> = (0..300).map(|n| format!("t{n:03}")).collect();
    put(&direct, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let mut taken = Vec::new();
    while taken.last() != Some(&64) {
        let runs = broker.dequeue(&me, &wanted).await.unwrap();
        assert!(!runs.is_empty(), "no call of these took a full answer: {taken:?}");
        taken.push(runs.len());
    }
    assert!(taken[0] < 64, "the outage made the answers short: {taken:?}");
}

/// In the case of a worker, the task was stored, run and deleted before its enqueue was repeated.
#[tokio::test]
async fn an_enqueue_whose_answer_was_lost_is_not_stored_again_after_the_task_has_run() {
    let server = Server::start(&[]);
    let proxy = Proxy::before(&server);
    let broker = RedisBroker::connect(&proxy.url(), patient()).await.unwrap();
    let direct = server.broker().await;
    put(&direct, &["warm"]).await;
    let warm = take(&direct, &member("w"), 1).await.remove(0);
    assert_eq!(settle(&direct, &warm, Action::Done).await, Settled::Ok);
    for round in 0..10 {
        let id = format!("t{round}");
        let new = if round % 2 == 0 { task(&id) } else { replacing(&id) };
        proxy.lose_answers(1);
        let worker = async {
            loop {
                direct.wait_for_work(&[queue()], Quarantined::All, HOUR).await.unwrap();
                if let Some(run) = take(&direct, &member("w"), 1).await.pop() {
                    return settle(&direct, &run, Action::Done).await;
                }
            }
        };
        let (placed, settled) = soon(async { tokio::join!(broker.enqueue(vec![new]), worker) }).await;
        assert!(placed[0].is_ok(), "{placed:?}");
        assert_eq!((settled, proxy.still_to_lose()), (Settled::Ok, 0));
    }
    let stats = direct.queue_stats(&queue()).await.unwrap();
    assert_eq!((stats.size, stats.processed_total), (0, 11), "each task ran once");
}

/// After a failover the receipt is gone, and the call that was repeated is repeated by hand.
#[tokio::test]
async fn a_repeat_without_a_receipt_says_that_its_task_is_scheduled() {
    let server = Server::start(&["--slowlog-log-slower-than", "0"]);
    let (mut redis, broker) = (server.foreign().await, server.broker().await);
    // Where the receipt and the argument are that says that it was sent before.
    for (new, receipt, again) in [(task as fn(&str) -> NewTask, 6, 12), (replacing, 13, 20)] {
        for id in ["known", "t1"] {
            broker.enqueue(vec![NewTask { when: When::In(HOUR), ..new(id) }]).await.remove(0).unwrap();
            let () = redis.del("asynq:{default}:unique:email:k").await.unwrap();
        }
        let mut call = newest_script(&mut redis).await;
        let () = redis.del(&call[receipt]).await.unwrap();
        call[again] = "1".into();
        let answer: Vec<String> = redis::cmd("EVALSHA").arg(&call[1..]).query_async(&mut redis).await.unwrap();
        let due: String = redis.zscore("asynq:{default}:x:due", "s:t1").await.unwrap();
        assert_eq!((answer[0].as_str(), answer.last()), ("s", Some(&due)));
        let () = redis::cmd("FLUSHALL").query_async(&mut redis).await.unwrap();
    }
}

fn replacing(id: &str) -> NewTask {
    let unique = Some(UniqueLock { key: "asynq:{default}:unique:email:k".into(), ttl: HOUR });
    NewTask { unique, replaces: Some(Replaces::default()), ..task(id) }
}

/// Returns the receipts of sends, each with the seconds for which it is still kept.
async fn receipts(redis: &mut MultiplexedConnection) -> Vec<(String, i64)> {
    let keys: Vec<String> = redis.keys("asynq:{default}:x:sent:*").await.unwrap();
    let mut receipts = Vec::new();
    for key in keys {
        let ttl = redis.ttl(&key).await.unwrap();
        receipts.push((key, ttl));
    }
    receipts
}

#[tokio::test]
async fn a_receipt_is_kept_for_longer_than_its_send_is_repeated() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    for (query, kept) in [("", 61..=78), ("?timeout=60s", 1_201..=1_560)] {
        let url = server.url() + query;
        let broker = RedisBroker::connect(&url, RedisOptions::default()).await.unwrap();
        // Each of these goes through another script.
        for tasks in [vec![task("a")], vec![task("b"), task("c")], vec![replacing("d")]] {
            broker.enqueue(tasks).await.into_iter().for_each(|outcome| drop(outcome.unwrap()));
            let receipts = receipts(&mut redis).await;
            let are_kept = !receipts.is_empty() && receipts.iter().all(|(_, ttl)| kept.contains(ttl));
            assert!(are_kept, "{query}: {receipts:?}");
        }
        let () = redis::cmd("FLUSHALL").query_async(&mut redis).await.unwrap();
    }
}

/// `WAIT` of Redis 7.2 waits only for the writes of its own connection, and a repeat comes on another one than the
/// first send.
#[tokio::test]
async fn a_repeat_that_stores_nothing_writes_its_receipt_for_a_replica_to_confirm() {
    // The number of the argument that marks a repeat, in either script.
    for (tasks, again) in [(vec![task("a"), task("b")], 3), (vec![replacing("c")], 4)] {
        let stored = tasks.len();
        let server = Server::start(&["--slowlog-log-slower-than", "0"]);
        let (mut redis, broker) = (server.foreign().await, server.broker().await);
        broker.enqueue(tasks).await.into_iter().for_each(|outcome| drop(outcome.unwrap()));
        let mut call = newest_script(&mut redis).await;
        let keys: usize = std::str::from_utf8(&call[2]).unwrap().parse().unwrap();
        call[3 + keys + again] = b"1".to_vec();
        let receipt = receipts(&mut redis).await.remove(0).0;
        // A failover may lose the receipt; then the tasks themselves show that they are stored.
        for is_lost in [false, true] {
            if is_lost {
                let () = redis.del(&receipt).await.unwrap();
                // A full Redis does not refuse tasks that it has.
                limit_memory(&mut redis, "1").await;
                let answer: Vec<Value> = redis::cmd("EVALSHA").arg(&call[1..]).query_async(&mut redis).await.unwrap();
                assert!(matches!(answer[0], Value::BulkString(_)), "{answer:?}");
                limit_memory(&mut redis, "0").await;
            } else {
                let () = redis.expire(&receipt, 5).await.unwrap();
            }
            let _: Value = redis::cmd("EVALSHA").arg(&call[1..]).query_async(&mut redis).await.unwrap();
            let ttl: i64 = redis.ttl(&receipt).await.unwrap();
            assert!(ttl > 5, "lost: {is_lost}, {ttl} s");
            assert_eq!(broker.queue_stats(&queue()).await.unwrap().pending, stored as u64, "not stored again");
        }
    }
}

#[tokio::test]
async fn a_dequeue_whose_caller_went_away_is_found_by_the_next_one() {
    let server = Server::start(&[]);
    let broker = server.broker().await;
    put(&broker, &["a", "b"]).await;
    let wanted = [Wanted { queue: queue(), n: 1 }];
    let me = member("me");
    let mut call = Box::pin(broker.dequeue(&me, &wanted));
    server.send(call.as_mut());
    drop(call);
    let mut found = Vec::new();
    eventually("both tasks are found", async || {
        found.extend(ids(&take(&broker, &me, 2).await).into_iter().map(str::to_owned));
        (found.len() >= 2).then_some(())
    })
    .await;
    assert_eq!(found, ["a", "b"]);
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().active, 2);
}

#[tokio::test]
async fn a_lost_dequeue_is_found_below_thousands_of_newer_runs() {
    let server = Server::start(&[]);
    let proxy = Proxy::before(&server);
    let broker = RedisBroker::connect(&proxy.url(), patient()).await.unwrap();
    let mut redis = server.foreign().await;
    let (me, wanted) = (member("me"), [Wanted { queue: queue(), n: 2 }]);
    // Redis knows the script after this call, so the lost answer is not the one that the script is unknown.
    assert!(take(&broker, &me, 2).await.is_empty());
    put(&broker, &["a", "b"]).await;
    proxy.lose_answers(1);
    assert!(broker.dequeue(&me, &wanted).await.is_err());
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().active, 2, "taken, but no worker knows");
    let newer: Vec<String> = (0..5000).map(|n| format!("newer{n}")).collect();
    let () = redis.lpush("asynq:{default}:active", newer).await.unwrap();
    let () = redis.set("asynq:{default}:t:newer7", "a key of a foreign type").await.unwrap();
    assert_eq!(ids(&take(&broker, &me, 2).await), ["a", "b"]);
}

/// The first send reaches Redis after the broker gave it up: it must not take tasks that no caller gets.
#[tokio::test]
async fn a_dequeue_that_redis_reads_late_takes_nothing_that_is_not_returned() {
    let server = Server::start(&[]);
    let broker = server.broker_with(in_time(BRIEF)).await;
    put(&broker, &["a", "b", "c", "d"]).await;
    for expected in ["a", "b"] {
        let stopped = server.stop();
        let wanted = [Wanted { queue: queue(), n: 1 }];
        let late = broker.dequeue(&member("me"), &wanted).await.unwrap_err();
        assert!(late.is_unavailable(), "{late:?}");
        drop(stopped);
        let runs = eventually("Redis answers again", async || match broker.dequeue(&member("me"), &wanted).await {
            Ok(runs) => Some(runs),
            Err(error) => {
                assert!(error.is_unavailable(), "{error:?}");
                None
            }
        })
        .await;
        assert_eq!(ids(&runs), [expected]);
        assert_eq!(settle(&broker, &runs[0], Action::Done).await, Settled::Ok);
        assert_eq!(broker.queue_stats(&queue()).await.unwrap().active, 0, "nothing was taken besides");
    }
}

/// The network keeps the first send until long after the second was answered.
#[tokio::test]
async fn a_dequeue_that_arrives_after_its_repeat_is_not_run_at_all() {
    let server = Server::start(&[]);
    let proxy = Proxy::before(&server);
    let broker = RedisBroker::connect(&proxy.url(), in_time(BRIEF)).await.unwrap();
    put(&broker, &["a", "b"]).await;
    proxy.hold_back();
    let wanted = [Wanted { queue: queue(), n: 1 }];
    let late = broker.dequeue(&member("me"), &wanted).await.unwrap_err();
    assert!(late.is_unavailable(), "{late:?}");
    assert_eq!(ids(&take(&broker, &member("me"), 1).await), ["a"]);
    proxy.release().await;
    for _ in 0..10 {
        broker.ping().await.unwrap();
    }
    let stats = broker.queue_stats(&queue()).await.unwrap();
    assert_eq!((stats.active, stats.pending), (1, 1), "the late call took a task for no worker");
}

/// Nothing is lost and nothing runs twice, whichever answer gets lost.
#[tokio::test]
async fn while_every_seventh_answer_is_lost_each_task_runs_exactly_once() {
    const CALLERS: usize = 8;
    const TASKS: usize = 40;
    let server = Server::start(&[]);
    let proxy = Proxy::before(&server);
    let connect = || async { Arc::new(RedisBroker::connect(&proxy.url(), patient()).await.unwrap()) };
    let (producer, worker) = (connect().await, connect().await);
    proxy.lose_every(7);
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let producer = Arc::clone(&producer);
            tokio::spawn(async move {
                for i in 0..TASKS {
                    put(&producer, &[&format!("{caller}-{i}")]).await;
                }
            })
        })
        .collect();

    let mut ran = Vec::new();
    let mut outbox: Vec<Settlement> = Vec::new();
    soon(async {
        while ran.len() < CALLERS * TASKS || !outbox.is_empty() {
            if let Ok(runs) = worker.dequeue(&member("me"), &[Wanted { queue: queue(), n: 5 }]).await {
                ran.extend(runs.iter().map(|run| run.key.id.to_string()));
                outbox.extend(runs.iter().map(|run| settlement(run, Action::Done)));
            }
            let answers = worker.settle(&outbox).await;
            let mut open = Vec::new();
            for (settlement, answer) in outbox.into_iter().zip(answers) {
                match answer {
                    Ok(settled) => assert_eq!(settled, Settled::Ok, "{:?}", settlement.run),
                    Err(error) => {
                        assert!(error.is_unavailable(), "{error:?}");
                        open.push(Settlement { resend: true, ..settlement });
                    }
                }
            }
            outbox = open;
        }
    })
    .await;
    for caller in callers {
        caller.await.unwrap();
    }
    proxy.lose_every(0);
    ran.sort();
    let all = ran.len();
    ran.dedup();
    assert_eq!((ran.len(), all), (CALLERS * TASKS, CALLERS * TASKS));
    let stats = server.broker().await.queue_stats(&queue()).await.unwrap();
    assert_eq!((stats.size, stats.processed_total), (0, (CALLERS * TASKS) as u64));
}

/// The list was evicted, deleted, or came back in part from a backup. The lease is then the last trace of a task.
#[tokio::test]
async fn a_task_whose_place_among_the_active_was_lost_is_pending_again() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, clock) = with_clock(&server).await;
    put(&broker, &["a", "b", "gone"]).await;
    let late = take(&broker, &member("late"), 3).await;
    let () = redis.del("asynq:{default}:active").await.unwrap();
    // Nothing of this task is left but the lease.
    let () = redis.del("asynq:{default}:t:gone").await.unwrap();
    // This task is not active either.
    let () = redis.zadd("asynq:{default}:lease", "waits", 0).await.unwrap();
    put(&broker, &["waits"]).await;
    clock.advance(Duration::from_secs(31));
    let recovered = broker.recover(&[queue()]).await.unwrap();
    let mut back: Vec<&str> = recovered.tasks.iter().map(|(_, id)| id.as_str()).collect();
    back.sort_unstable();
    assert_eq!(back, ["a", "b"]);
    assert_eq!(settle(&broker, &late[0], Action::Done).await, Settled::Fenced);
    let runs = take(&broker, &member("me"), 4).await;
    let mut crashes: Vec<(&str, u32)> = runs.iter().map(|run| (run.key.id.as_str(), run.crashes)).collect();
    crashes.sort_unstable();
    assert_eq!(crashes, [("a", 1), ("b", 1), ("waits", 0)]);
    let leases: usize = redis.zcard("asynq:{default}:lease").await.unwrap();
    assert_eq!(leases, 3);
}
