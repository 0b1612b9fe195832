//! The cost of scripts beside many runs, and beside ids without a task: each is bounded by what it looks at.

use std::{sync::Arc, time::Duration};

use asynq_runtime::{
    Inspector,
    broker::{
        BulkAction, Changed, Consume, Diagnose, GroupRules, Groups, Inspect, Maintain, Produce, Repair, Run, Wanted,
        redis::RedisBroker,
    },
    task::{GroupName, QueueName},
};
use redis::{AsyncCommands, Value, aio::MultiplexedConnection};

use super::{
    groups::grouped,
    server::{Proxy, Server, patient},
    tasks::*,
};

const ACTIVE: &str = "asynq:{default}:active";
const PENDING: &str = "asynq:{default}:pending";
/// Runs of others that begin after those of the lost dequeue.
const NEWER: usize = 5_000;
/// More commands than a script runs that looks at a thousand ids.
const PER_PAGE: u64 = 1_100;

/// Puts the tasks `a` and `b`, and takes them by a dequeue whose answer is lost. Then `newer` runs of others begin.
async fn lose(server: &Server, newer: usize) -> (RedisBroker, MultiplexedConnection) {
    let proxy = Proxy::before(server);
    let broker = RedisBroker::connect(&proxy.url(), patient()).await.unwrap();
    let mut redis = server.foreign().await;
    // Redis knows the script after this call, so the lost answer is not the one that the script is unknown.
    assert!(take(&broker, &member("me"), 2).await.is_empty());
    let () = redis.lpush(ACTIVE, ids_of("older", 50)).await.unwrap();
    put(&broker, &["a", "b"]).await;
    proxy.lose_answers(1);
    broker.dequeue(&member("me"), &[Wanted { queue: queue(), n: 2 }]).await.unwrap_err();
    let () = redis.lpush(ACTIVE, ids_of("newer", newer)).await.unwrap();
    (broker, redis)
}

fn ids_of(name: &str, n: usize) -> Vec<String> {
    (0..n).map(|n| format!("{name}{n}")).collect()
}

#[tokio::test]
async fn a_lost_dequeue_is_released_page_by_page() {
    let server = Server::start(&[]);
    let (broker, mut redis) = lose(&server, NEWER).await;
    let me = member("me");
    let released = broker.release_unanswered(&me, Duration::ZERO);
    let (released, scripts, commands) = cost(&mut redis, released).await;
    assert_eq!(released.unwrap().iter().map(|(_, id)| id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert!(scripts >= NEWER as u64 / 1_000, "{scripts} scripts");
    assert!(commands / scripts <= PER_PAGE, "{commands} commands in {scripts} scripts");
    let active: Vec<String> = redis.lrange(ACTIVE, 0, -1).await.unwrap();
    let others: Vec<String> =
        ids_of("newer", NEWER).into_iter().rev().chain(ids_of("older", 50).into_iter().rev()).collect();
    assert!(active == others, "the others stay as they are: {} runs", active.len());
    assert_eq!(redis.zcard::<_, usize>("asynq:{default}:lease").await.unwrap(), 0);
    let runs: Vec<Run> = take(&broker, &member("other"), 2).await;
    assert_eq!(ids(&runs), ["a", "b"]);
    assert!(runs.iter().all(|run| run.crashes == 0));
}

/// The call that found the tasks is repeated by hand, page by page, while runs begin and end.
#[tokio::test]
async fn runs_that_begin_and_end_between_two_pages_hide_no_task_of_a_lost_dequeue() {
    let server = Server::start(&["--slowlog-log-slower-than", "0"]);
    let (broker, mut redis) = lose(&server, NEWER).await;
    assert_eq!(broker.release_unanswered(&member("me"), Duration::ZERO).await.unwrap().len(), 2);
    let mut call = newest_script(&mut redis).await;
    // EVALSHA, digest, number of keys, four keys, now, prefix.
    let (token, from, mut pages) = (9, 10, 0);
    call[from].clear();
    // The tasks are active again, in the place that they had.
    let () = redis.del(PENDING).await.unwrap();
    for id in ["b", "a"] {
        let _: isize = redis.linsert_before(ACTIVE, "older49", id).await.unwrap();
        let fields = [("state", b"active".as_slice()), ("pending_since", call[token].as_slice())];
        let () = redis.hset_multiple(format!("asynq:{{default}}:t:{id}"), &fields).await.unwrap();
    }
    let found = loop {
        pages += 1;
        assert!(pages <= 9, "the search does not end");
        match redis::cmd("EVALSHA").arg(&call[1..]).query_async::<Value>(&mut redis).await.unwrap() {
            Value::Int(place) => call[from] = place.to_string().into(),
            found => break found,
        }
        // The newest runs end, so that those below come nearer to the head; others begin, and one of the oldest ends.
        let () = redis.ltrim(ACTIVE, 300, -2).await.unwrap();
        let () = redis.lpush(ACTIVE, ids_of(&format!("page{pages}-"), 50 + 100 * (pages % 3))).await.unwrap();
    };
    let released: Vec<String> = redis::from_redis_value(found).unwrap();
    assert_eq!(released, ["a", "b"]);
    assert!(pages >= 4, "found on page {pages}");
}

/// Ids without a task are removed as far from the tail as a removal walks in a moment. The calls of a sweep are repeated by hand.
#[tokio::test]
async fn a_sweep_removes_nothing_deep_in_a_list_and_restores_leases_there() {
    let server = Server::start(&["--slowlog-log-slower-than", "0"]);
    let (mut redis, broker) = (server.foreign().await, server.broker().await);
    put(&broker, &["deep"]).await;
    assert_eq!(take(&broker, &member("me"), 1).await.len(), 1);
    // From here on Redis knows the script, so the calls below are sent by its digest.
    broker.sweep(&queue()).await.unwrap();
    let lease = "asynq:{default}:lease";
    let () = redis.del(lease).await.unwrap();
    let () = redis.zadd(lease, "ghost20099", 4_000_000_000_i64).await.unwrap();
    for list in [ACTIVE, PENDING] {
        let () = redis.rpush(list, ids_of("ghost", 20_100)).await.unwrap();
        let () = redis.lpush(list, ids_of("deeper", 100)).await.unwrap();
    }
    assert_eq!(broker.sweep(&queue()).await.unwrap().ghosts_removed, 200, "those at the tails");
    assert!(!redis.exists::<_, bool>(lease).await.unwrap(), "a lease goes with its ghost");
    assert_eq!(redis.scard::<_, usize>("asynq:{default}:x:orphans").await.unwrap(), 100, "the same in both lists");
    let call = newest_script(&mut redis).await;
    let mut sweep = async |active: &str, pending: &str| {
        let mut call = call.clone();
        // EVALSHA, digest, number of keys, six keys, now, prefix, slice.
        (call[12], call[13]) = (active.into(), pending.into());
        let before = [calls(&mut redis, "lset").await, calls(&mut redis, "lrem").await];
        let answer: Vec<String> = redis::cmd("EVALSHA").arg(&call[1..]).query_async(&mut redis).await.unwrap();
        let walks = [calls(&mut redis, "lset").await - before[0], calls(&mut redis, "lrem").await - before[1]];
        (answer.join(" "), walks)
    };
    assert_eq!(sweep("20000", "20000").await, ("1 0 20100 0".to_owned(), [0, 0]), "the lease of `deep`");
    assert_eq!(sweep("20100", "19900").await, ("0 100 0 19900".to_owned(), [100, 1]), "the last ghosts that are near");
    // Those that are removed let others come nearer.
    assert_eq!(sweep("0", "19900").await, ("0 200 0 19900".to_owned(), [200, 2]));
}

#[tokio::test]
async fn a_task_that_is_deep_in_a_long_list_can_be_deleted() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    put(&broker, &["deep"]).await;
    let () = redis.rpush(PENDING, ids_of("older", 10_100)).await.unwrap();
    let () = redis.lpush(PENDING, ids_of("newer", 10_100)).await.unwrap();
    assert_eq!(broker.change_task(&queue(), &id("deep"), None, BulkAction::Delete).await.unwrap(), Changed::Done);
    assert_eq!(redis.llen::<_, usize>(PENDING).await.unwrap(), 20_200, "its id is gone");
}

/// A recovery reads a megabyte of messages: of the others it cannot tell whether an attempt has failed since the last crash.
#[tokio::test]
async fn a_crash_counts_although_its_message_is_not_read() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    for name in ["a", "b"] {
        let mut large = task(name);
        large.message.payload = vec![0; 600_000].into();
        broker.enqueue(vec![large]).await.remove(0).unwrap();
        assert_eq!(take(&broker, &member("me"), 1).await.len(), 1);
        let key = format!("asynq:{{default}}:t:{name}");
        let () = redis.hset_multiple(key, &[("crashes", "1"), ("crashes_retried", "5")]).await.unwrap();
        let () = redis.zadd("asynq:{default}:lease", name, 1).await.unwrap();
    }
    assert_eq!(broker.recover(&[queue()]).await.unwrap().tasks.len(), 2);
    let mut crashes = Vec::new();
    for name in ["a", "b"] {
        crashes.push(broker.task(&queue(), &id(name)).await.unwrap().unwrap().crashes);
    }
    crashes.sort_unstable();
    assert_eq!(crashes, [1, 2], "the row of one begins anew");
}

#[tokio::test]
async fn ids_without_a_task_are_taken_out_of_a_group_by_as_many_scripts_as_sets_of_them() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, clock) = with_clock(&server).await;
    for outcome in broker.enqueue(["a", "b"].map(|id| grouped(id, "g")).into()).await {
        outcome.unwrap();
    }
    let ghosts: Vec<(i64, String)> = ids_of("ghost", 4_500).into_iter().map(|id| (1, id)).collect();
    let () = redis.zadd_multiple("asynq:{default}:g:g", &ghosts).await.unwrap();
    clock.advance(Duration::from_secs(61));
    let (queue, group, rules) = (queue(), GroupName::new("g").unwrap(), GroupRules::default());
    let (set, scripts, commands) = cost(&mut redis, broker.claim_set(&queue, &group, &rules)).await;
    let set = set.unwrap().unwrap();
    assert_eq!(set.members.iter().map(|member| member.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert!(scripts >= 5 && commands / scripts <= PER_PAGE, "{commands} commands in {scripts} scripts");
    assert!(broker.groups(&queue, None, 9).await.unwrap().groups.is_empty());
}

/// Keys of other programs are looked at as well.
#[tokio::test]
async fn the_keys_of_a_server_are_walked_over_once_for_all_queues_and_no_further_than_the_limit() {
    let server = Server::start(&["--slowlog-log-slower-than", "0"]);
    let (mut redis, broker) = (server.foreign().await, server.broker().await);
    put(&broker, &["a"]).await;
    let others: Vec<(String, usize)> = (0..5_000).map(|n| (format!("other:{n}"), n)).collect();
    let () = redis.mset(&others).await.unwrap();
    let empty = (0..50).map(|n| QueueName::new(&format!("q{n}")).unwrap());
    let queues: Vec<QueueName> = empty.chain([queue()]).collect();
    for (limit, most, is_whole) in [(1, 1, false), (1_000_000, 20, true)] {
        let before = calls(&mut redis, "scan").await;
        let found = broker.keys_of_all(&queues, limit).await;
        let scans = calls(&mut redis, "scan").await - before;
        assert!(scans <= most, "{scans} scans");
        assert!(found.iter().all(|(_, keys)| keys.as_ref().is_ok_and(|keys| keys.complete == is_whole)), "{found:?}");
        assert_eq!(broker.examine(&queue(), limit).await.unwrap().complete, is_whole);
    }
    let (_, found) = broker.keys_of_all(&queues, 1_000_000).await.pop().unwrap();
    assert_eq!(found.unwrap().names, ["asynq:{default}:t:a"]);
    let found = broker.keys_of(&queue(), 1_000_000).await.unwrap();
    assert_eq!(found.names, ["asynq:{default}:t:a"]);
    let pattern = newest_call(&mut redis, "SCAN").await.remove(3);
    assert_eq!(pattern, b"asynq:{default}:[tu][:n]*", "no names of other queues come over the network");
}

#[tokio::test]
async fn a_walk_over_keys_whose_connection_is_lost_begins_anew() {
    let server = Server::start(&[]);
    let proxy = Proxy::before(&server);
    let broker = RedisBroker::connect(&proxy.url(), patient()).await.unwrap();
    proxy.lose_answers(1);
    // By this word the proxy knows a script.
    let found = broker.keys_of(&QueueName::new("EVAL").unwrap(), 1).await.unwrap();
    assert!(found.complete && found.names.is_empty(), "{found:?}");
    assert_eq!(proxy.still_to_lose(), 0);
}

#[tokio::test]
async fn whether_a_queue_exists_is_known_without_the_names_of_all_queues() {
    let server = Server::start(&[]);
    let (mut redis, broker) = (server.foreign().await, server.broker().await);
    put(&broker, &["a"]).await;
    let inspector = Inspector::new(Arc::new(broker));
    for id in ["gone", "lost"] {
        assert!(inspector.delete("default", id).await.unwrap_err().is_not_found());
    }
    inspector.memory_usage("default").await.unwrap();
    assert!(inspector.exists("none").await.unwrap_err().is_not_found());
    assert_eq!(calls(&mut redis, "smembers").await, 0);
}
