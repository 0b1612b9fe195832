//! Long messages, which go beside the scripts in both directions: Lua hashes each text that it is given, which takes Redis a
//! nanosecond per byte.

use asynq_runtime::broker::{
    BrokerErrorKind, Consume, Inspect, NewTask, Produce, Refused, UniqueLock, Wanted, When, redis::RedisBroker,
};
use asynq_runtime::task::{GroupName, TaskMessage};
use redis::{AsyncCommands, RedisError, Value, aio::MultiplexedConnection};

use super::{
    caller_driven::caller_driven_ids,
    fetching::warm,
    repair::set,
    server::{Proxy, Server, patient},
    tasks::*,
};

fn long(id: &str) -> NewTask {
    let new = task(id);
    NewTask { message: TaskMessage { payload: vec![b'x'; 100_000].into(), ..new.message }, ..new }
}

/// Enqueues `t0`, `t1` and so on.
async fn put_long(broker: &RedisBroker, tasks: usize) {
    let tasks = (0..tasks).map(|n| long(&format!("t{n}"))).collect();
    broker.enqueue(tasks).await.into_iter().for_each(|outcome| drop(outcome.unwrap()));
}

/// Returns the keys in which messages went beside a script.
async fn left_behind(redis: &mut MultiplexedConnection) -> Vec<String> {
    redis.keys("asynq:{default}:x:msg:*").await.unwrap()
}

#[tokio::test]
async fn long_messages_are_stored_beside_the_script_and_leave_nothing_behind() {
    let server = Server::start(&[]);
    let (mut redis, broker) = (server.foreign().await, server.broker().await);
    let lock = || Some(UniqueLock { key: "asynq:{default}:unique:email:k".into(), ttl: HOUR });
    let batch = vec![
        long("a"),
        task("short"),
        NewTask { unique: lock(), ..long("b") },
        NewTask { unique: lock(), ..long("refused") },
        NewTask { when: When::In(HOUR), ..long("later") },
        NewTask { group: Some(GroupName::new("g").unwrap()), ..long("grouped") },
    ];
    let answers = broker.enqueue(batch).await;
    assert!(matches!(answers[3], Err(Refused::Duplicate { .. })), "{answers:?}");
    broker.enqueue(vec![long("c")]).await.remove(0).unwrap();
    let calls = calls_by_command(&mut redis).await;
    assert_eq!((calls.of("rename"), calls.of("persist")), (5, 5));
    assert!(left_behind(&mut redis).await.is_empty());
    for id in ["a", "short", "b", "c", "later", "grouped"] {
        let ttl: i64 = redis.ttl(format!("asynq:{{default}}:t:{id}")).await.unwrap();
        assert_eq!(ttl, -1, "{id} has an end");
    }
    let runs = take(&broker, &member("me"), 9).await;
    assert_eq!(ids(&runs), ["a", "short", "b", "c"]);
    assert!(runs.iter().all(|run| run.key.id == "short" || run.message.as_ref().unwrap().payload.len() == 100_000));
}

#[tokio::test]
async fn a_script_whose_long_message_did_not_come_stores_nothing_and_is_to_be_sent_again() {
    let server = Server::start(&["--slowlog-log-slower-than", "0"]);
    let (mut redis, broker) = (server.foreign().await, server.broker().await);
    broker.enqueue(vec![long("a")]).await.remove(0).unwrap();
    let call = newest_script(&mut redis).await;
    let () = redis.del("asynq:{default}:t:a").await.unwrap();

    let again: Result<Value, RedisError> = redis::cmd("EVALSHA").arg(&call[1..]).query_async(&mut redis).await;

    let error = again.unwrap_err();
    assert_eq!(error.code(), Some("TRYAGAIN"), "{error}");
    let stats = broker.queue_stats(&queue()).await.unwrap();
    assert_eq!(stats.pending, 1, "the id of the task that is gone");
}

#[tokio::test]
async fn a_long_message_that_cannot_be_stored_leaves_nothing_behind() {
    let server = Server::start(&[]);
    let (mut redis, broker) = (server.foreign().await, server.broker().await);
    let () = redis.set("asynq:{default}:pending", "of a foreign type").await.unwrap();
    broker.enqueue(vec![long("a")]).await.remove(0).unwrap_err();
    assert!(left_behind(&mut redis).await.is_empty());
    assert!(!redis.exists::<_, bool>("asynq:{default}:t:a").await.unwrap());

    let () = redis.del("asynq:{default}:pending").await.unwrap();
    let () = redis::cmd("ACL").arg(&["SETUSER", "default", "-rename"]).query_async(&mut redis).await.unwrap();
    broker.enqueue(vec![long("a")]).await.remove(0).unwrap_err();
    let left = left_behind(&mut redis).await;
    let ttl: i64 = redis.ttl(&left[0]).await.unwrap();
    assert!(left.len() == 1 && (1..=60).contains(&ttl), "it has no end: {left:?} {ttl}");
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().size, 0);
}

#[tokio::test]
async fn a_full_redis_refuses_long_messages_and_keeps_none_of_them() {
    let server = Server::start(&["--maxmemory-policy", "noeviction"]);
    let (mut redis, broker) = (server.foreign().await, server.broker().await);
    // This call makes the script known to Redis.
    broker.enqueue(vec![long("a")]).await.remove(0).unwrap();
    let used = async |redis: &mut MultiplexedConnection| -> u64 {
        let memory: String = redis::cmd("INFO").arg("memory").query_async(redis).await.unwrap();
        memory.lines().find_map(|line| line.strip_prefix("used_memory:")?.parse().ok()).unwrap()
    };
    let lock = |id: &str| Some(UniqueLock { key: format!("asynq:{{default}}:unique:email:{id}"), ttl: HOUR });
    // There is room for some of the ten tasks.
    for (round, with_lock) in [false, true, false, true].into_iter().enumerate() {
        let most = used(&mut redis).await + 500_000;
        limit_memory(&mut redis, &most.to_string()).await;
        let batch = (0..10).map(|i| {
            let id = format!("{round}-{i}");
            NewTask { unique: lock(&id).filter(|_| with_lock), ..long(&id) }
        });
        for outcome in broker.enqueue(batch.collect()).await {
            assert!(matches!(&outcome, Err(Refused::Broker(error)) if error.is_full()), "{outcome:?}");
        }
        assert_eq!(left_behind(&mut redis).await, [] as [String; 0], "round {round}");
    }
    limit_memory(&mut redis, "0").await;
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().size, 1);
}

#[tokio::test]
async fn a_long_message_whose_answer_was_lost_is_stored_once() {
    let server = Server::start(&[]);
    let proxy = Proxy::before(&server);
    let broker = RedisBroker::connect(&proxy.url(), patient()).await.unwrap();
    let mut redis = server.foreign().await;
    broker.enqueue(vec![long("warm")]).await.remove(0).unwrap();
    proxy.lose_answers(1);
    let later = NewTask { when: When::In(HOUR), ..long("later") };
    let unique = Some(UniqueLock { key: "asynq:{default}:unique:email:k".into(), ttl: HOUR });
    let batch = vec![long("a"), task("short"), later, NewTask { unique, ..long("b") }];
    broker.enqueue(batch).await.into_iter().for_each(|outcome| drop(outcome.unwrap()));
    assert_eq!(proxy.still_to_lose(), 0);
    assert_eq!(ids(&take(&broker, &member("me"), 9).await), ["warm", "a", "short", "b"]);
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().scheduled, 1);
    assert!(left_behind(&mut redis).await.is_empty());
}

#[tokio::test]
async fn long_messages_are_read_beside_the_script_and_are_not_lost_when_they_cannot_be() {
    let server = Server::start(&[]);
    let proxy = Proxy::before(&server);
    let broker = RedisBroker::connect(&proxy.url(), patient()).await.unwrap();
    let (mut redis, me) = (server.foreign().await, member("me"));
    put_long(&broker, 10).await;
    put(&broker, &["short1", "short2"]).await;
    let mut took = async |n| {
        let before = calls_by_command(&mut redis).await;
        let taken = broker.dequeue(&me, &[Wanted { queue: queue(), n }]).await;
        let calls = calls_by_command(&mut redis).await - &before;
        let [hget, hstrlen] = ["hget", "hstrlen"].map(|name| calls.of(name));
        (taken.map(|runs| ids(&runs).join(" ")).map_err(|error| error.is_unavailable()), hget, hstrlen)
    };
    assert_eq!(took(2).await, (Ok("t0 t1".into()), 0, 0), "no worker knows yet that they are long");
    assert_eq!(took(2).await, (Ok("t2 t3".into()), 2, 2));

    // The second answer of a call is the one with the messages.
    proxy.lose_every(2);
    let (lost, ..) = took(2).await;
    proxy.lose_every(0);
    assert_eq!(lost, Err(true));
    assert_eq!(took(2).await.0, Ok("t4 t5".into()), "the tasks of the call that failed come with the next");

    assert_eq!(took(6).await, (Ok("t6 t7 t8 t9 short1 short2".into()), 4, 6));
}

#[tokio::test]
async fn a_long_message_whose_reading_is_refused_comes_later_on_the_same_connection() {
    let server = Server::start(&[]);
    let (broker, mut redis) = (server.broker().await, server.foreign().await);
    let own = warm(&broker, &mut redis).await;
    put_long(&broker, 3).await;
    assert_eq!(ids(&take(&broker, &member("me"), 1).await), ["t0"], "from now on the broker knows that they are long");
    set(&mut redis, &["ACL", "SETUSER", "default", "-hget"]).await;
    let wanted = [Wanted { queue: queue(), n: 1 }];
    let refused = broker.dequeue(&member("me"), &wanted).await.unwrap_err();
    assert_eq!(refused.kind(), BrokerErrorKind::Denied);
    set(&mut redis, &["ACL", "SETUSER", "default", "+hget"]).await;
    assert_eq!(ids(&take(&broker, &member("me"), 2).await), ["t1", "t2"]);
    assert!(caller_driven_ids(&mut redis).await.contains(&own));
}

#[tokio::test]
async fn a_dequeue_takes_no_more_long_messages_than_it_may_carry() {
    let server = Server::start(&[]);
    let broker = RedisBroker::connect(&server.url(), patient()).await.unwrap();
    let (mut redis, me) = (server.foreign().await, member("me"));
    put_long(&broker, 90).await;
    let mut took = async || {
        let before = calls_by_command(&mut redis).await;
        let runs = take(&broker, &me, 50).await;
        let calls = calls_by_command(&mut redis).await - &before;
        (runs.len(), ["rpop", "rpush"].map(|name| calls.of(name)))
    };
    // A script takes a megabyte of the messages that it reads, the last of which goes beyond; the others are requeued until their
    // lengths are known. Of the messages that go beside it as many come as fill one write.
    assert_eq!(took().await, (11, [1, 39]));
    assert_eq!(took().await, (42, [1, 0]));
}
