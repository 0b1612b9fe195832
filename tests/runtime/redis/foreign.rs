//! Contents that no program of asynq's would write: ids in two places, scores at the ends of the numbers, names without keys.

use std::time::Duration;

use asynq_runtime::{
    broker::{
        BrokerErrorKind, Consume, GroupRules, Groups, Inspect, Maintain, NewTask, Page, Produce, Quarantined, Replaces,
        RetryOrder, TaskSet, UniqueLock, When, redis::RedisBroker,
    },
    task::{GroupName, QueueName, TaskId, TaskState},
};
use asynq_test_support::soon;
use chrono::{DateTime, Utc};
use redis::AsyncCommands;

use super::{server::Server, tasks::*};

/// Moves tasks until none is due.
async fn forward_all(broker: &RedisBroker) {
    soon(async { while broker.forward(&[queue()], RetryOrder::Last).await.unwrap().moved > 0 {} }).await;
}

#[tokio::test]
async fn an_id_in_two_places_runs_and_ends() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, clock) = with_clock(&server).await;
    // The id is in pending while its task is active: the run is neither lost nor joined by a second one for ever.
    put(&broker, &["a"]).await;
    let run = take(&broker, &member("me"), 1).await.remove(0);
    let () = redis.lpush("asynq:{default}:pending", "a").await.unwrap();
    put(&broker, &["good"]).await;
    let twice = take(&broker, &member("me"), 9).await;
    assert!(ids(&twice).contains(&"good"), "{:?}", ids(&twice));
    for run in std::iter::once(&run).chain(&twice) {
        settle(&broker, run, asynq_runtime::broker::Action::Done).await;
    }
    broker.sweep(&queue()).await.unwrap();
    assert!(take(&broker, &member("me"), 9).await.is_empty());
    assert!(broker.queue_stats(&queue()).await.unwrap().is_idle());

    // The id is in scheduled and in retry: the task is due twice and runs once.
    put(&broker, &["b"]).await;
    let run = take(&broker, &member("me"), 1).await.remove(0);
    settle(&broker, &run, retry(Duration::from_secs(1))).await;
    let due: f64 = redis.zscore("asynq:{default}:retry", "b").await.unwrap();
    let () = redis.zadd("asynq:{default}:scheduled", "b", due).await.unwrap();
    clock.advance(Duration::from_secs(2));
    forward_all(&broker).await;
    let runs = take(&broker, &member("me"), 9).await;
    assert_eq!(ids(&runs), ["b"]);
    settle(&broker, &runs[0], asynq_runtime::broker::Action::Done).await;
    broker.sweep(&queue()).await.unwrap();
    assert!(take(&broker, &member("me"), 9).await.is_empty());
    assert!(broker.queue_stats(&queue()).await.unwrap().is_idle());
}

#[tokio::test]
async fn scores_at_the_ends_of_the_numbers_are_read_and_stop_nothing() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, clock) = with_clock(&server).await;
    for (id, score) in [("never", "+inf"), ("now", "-inf"), ("late", "1e308"), ("part", "0.5"), ("good", "1")] {
        put(&broker, &[id]).await;
        let run = take(&broker, &member("me"), 1).await.remove(0);
        settle(&broker, &run, retry(Duration::from_secs(3600))).await;
        let () =
            redis::cmd("ZADD").arg("asynq:{default}:retry").arg(score).arg(id).query_async(&mut redis).await.unwrap();
        // Go's programs know no other due time.
        let () = redis.zrem("asynq:{default}:x:due", id).await.unwrap();
    }
    let listed = broker.tasks(&queue(), TaskState::Retry, Page { number: 1, size: 9 }).await.unwrap();
    assert_eq!(listed.len(), 5);
    clock.advance(Duration::from_secs(5));
    forward_all(&broker).await;
    let runs = take(&broker, &member("me"), 9).await;
    let mut due = ids(&runs);
    due.sort_unstable();
    assert_eq!(due, ["good", "now", "part"]);
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().retry, 2);
}

#[tokio::test]
async fn a_schedule_that_cannot_be_read_keeps_no_other_queue_from_its_tasks() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let () = redis.set("asynq:{broken}:scheduled", "text").await.unwrap();
    let queues = [QueueName::new("broken").unwrap(), queue()];
    let mut later = task("t1");
    later.when = When::In(Duration::from_millis(1));
    broker.enqueue(vec![later]).await.remove(0).unwrap();
    let hour = Duration::from_secs(3600);
    // A wait may end a moment early.
    let moved = async { while broker.wait_and_forward(&queues, RetryOrder::Last, hour).await.unwrap().moved == 0 {} };
    soon(moved).await;
    let nothing_else = soon(broker.wait_and_forward(&queues, RetryOrder::Last, hour)).await.unwrap_err();
    assert_eq!(nothing_else.kind(), BrokerErrorKind::Corrupt);
    put(&broker, &["t2"]).await;
    assert_eq!(broker.forward(&[queues[1].clone()], RetryOrder::Last).await.unwrap().moved, 0);
    assert!(broker.forward(&queues[..1], RetryOrder::Last).await.is_err());
}

#[tokio::test]
async fn a_list_that_cannot_be_read_keeps_no_other_queue_from_its_tasks() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, other) = (server.broker().await, server.broker().await);
    let () = redis.set("asynq:{broken}:pending", "text").await.unwrap();
    let queues = [QueueName::new("broken").unwrap(), queue()];
    let wait = async || soon(broker.wait_for_work(&queues, Quarantined::All, Duration::from_secs(3600))).await.unwrap();
    assert_eq!(wait().await, queues[..1], "the dequeue reports the error");
    put(&other, &["t1"]).await;
    assert_eq!(wait().await, queues[1..]);
}

#[tokio::test]
async fn a_pause_of_a_foreign_type_and_names_without_keys_do_no_harm() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    put(&broker, &["a"]).await;
    let () = redis.hset("asynq:{default}:paused", "by", "a foreign program").await.unwrap();
    assert!(broker.queue_stats(&queue()).await.unwrap().paused, "any key pauses, as for Go");
    assert!(take(&broker, &member("me"), 1).await.is_empty());
    broker.resume(&queue()).await.unwrap();
    assert_eq!(ids(&take(&broker, &member("me"), 1).await), ["a"]);

    let () = redis.sadd("asynq:queues", "nothing").await.unwrap();
    let nothing = QueueName::new("nothing").unwrap();
    assert!(broker.queues().await.unwrap().contains(&nothing));
    assert!(broker.queue_stats(&nothing).await.unwrap().is_idle());
    assert!(broker.tasks(&nothing, TaskState::Pending, Page { number: 1, size: 9 }).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_refused_name_of_a_queue_is_not_written_again_with_each_task() {
    let server = Server::start(&[]);
    let (broker, mut redis) = (server.broker().await, server.foreign().await);
    let () = redis.set("asynq:queues", "of a foreign program").await.unwrap();
    for id in ["a", "b", "c"] {
        put(&broker, &[id]).await;
    }
    assert_eq!(calls(&mut redis, "sadd").await, 1);
    assert_eq!(ids(&take(&broker, &member("me"), 3).await), ["a", "b", "c"]);
}

/// Puts 5,000 tasks into the group `g`, from number ARGV[1] on; ids have six digits.
const CROWD: &str = r#"
for n = tonumber(ARGV[1]), ARGV[1] + 4999 do
    local id = string.format("%06d", n)
    local key = "asynq:{default}:t:" .. id
    redis.call("HSET", key, "state", "aggregating", "group", "g",
        "msg", "\10\5email\26\6" .. id .. "\34\7default\40\25\64\60\114\1g")
    redis.call("ZADD", KEYS[1], 1700000000, id)
end
redis.call("SADD", KEYS[2], "g")
redis.call("SADD", "asynq:queues", "default")
"#;

#[tokio::test]
async fn a_group_of_twenty_thousand_is_taken_in_slices() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, _clock) = with_clock(&server).await;
    let keys = ["asynq:{default}:g:g", "asynq:{default}:groups"];
    for first in (0..20_000).step_by(5_000) {
        let () = redis::cmd("EVAL").arg(CROWD).arg(2).arg(&keys).arg(first).query_async(&mut redis).await.unwrap();
    }
    let group = GroupName::new("g").unwrap();
    for taken in 1..=3 {
        let before = commands(&mut redis).await;
        // No largest size, which is asynq's `GroupMaxSize(0)`.
        let set = broker.claim_set(&queue(), &group, &GroupRules::default()).await.unwrap().unwrap();
        assert_eq!(set.members.len(), TaskSet::MOST);
        assert!(set.members.iter().all(|member| member.message.is_ok()));
        let left: usize = redis.zcard(keys[0]).await.unwrap();
        assert_eq!(left, 20_000 - taken * TaskSet::MOST);
        // Other clients wait while the script looks at the members of the set, and at no other task of the group.
        let cost = commands(&mut redis).await - before;
        assert!(cost < 2 * TaskSet::MOST as u64, "{cost} commands for {} members", TaskSet::MOST);
    }
}

#[tokio::test]
async fn a_lock_that_never_ends_is_listed() {
    let server = Server::start(&[]);
    let (broker, mut redis) = (server.broker().await, server.foreign().await);
    put(&broker, &["t1"]).await;
    // That is longer than chrono's years.
    let mut set = redis::cmd("SET");
    set.arg("asynq:{default}:unique:email:x").arg("t1").arg("PX").arg(9_000_000_000_000_000_i64);
    let () = set.query_async(&mut redis).await.unwrap();
    let page = broker.locks(&queue(), None).await.unwrap();
    let until: Vec<_> = page.locks.iter().map(|lock| lock.until).collect();
    assert_eq!(until, [Some(DateTime::<Utc>::MAX_UTC)]);
}

#[tokio::test]
async fn a_first_id_without_a_task_hides_no_number_of_its_queue() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    put(&broker, &["a"]).await;
    let () = redis.rpush("asynq:{default}:pending", "gone").await.unwrap();
    for case in ["there is no key", "a key of a foreign type"] {
        let stats = broker.queue_stats(&queue()).await.unwrap();
        assert_eq!((stats.size, stats.pending, stats.latency), (2, 2, Duration::ZERO), "{case}");
        let () = redis.set("asynq:{default}:t:gone", "text").await.unwrap();
    }
}

#[tokio::test]
async fn a_text_in_place_of_the_beginning_of_a_burst_does_not_stop_an_enqueue() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let debounced = |id: &str| NewTask {
        when: When::In(Duration::from_secs(60)),
        unique: Some(UniqueLock { key: "asynq:{default}:unique:email:k".into(), ttl: HOUR }),
        replaces: Some(Replaces { within: Some(HOUR) }),
        ..task(id)
    };
    broker.enqueue(vec![debounced("a")]).await.remove(0).unwrap();
    // Field 11 of the message in x.
    let () = redis.hset("asynq:{default}:t:a", "x", "\x5a\x01x").await.unwrap();
    let placed = broker.enqueue(vec![debounced("b")]).await.remove(0).unwrap();
    assert_eq!((placed.replaced, placed.state), (Some(TaskId::new("a").unwrap()), TaskState::Scheduled));
}

#[tokio::test]
async fn a_foreign_key_stops_a_replacement_before_anything_is_changed() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let replacing = |id: &str| NewTask {
        when: When::In(HOUR),
        unique: Some(UniqueLock { key: "asynq:{default}:unique:email:k".into(), ttl: HOUR }),
        replaces: Some(Replaces::default()),
        ..task(id)
    };
    broker.enqueue(vec![NewTask { when: When::Now, ..replacing("a") }]).await.remove(0).unwrap();
    for name in ["scheduled", "retry", "x:due"] {
        let key = format!("asynq:{{default}}:{name}");
        let () = redis.set(&key, "foreign").await.unwrap();
        let before = dump(&mut redis).await;
        assert!(broker.enqueue(vec![replacing("b")]).await.remove(0).is_err(), "{name}");
        assert!(dump(&mut redis).await == before, "{name}: something was changed");
        let () = redis.del(&key).await.unwrap();
    }
}

#[tokio::test]
async fn a_count_of_crashes_with_a_fraction_stops_no_recovery() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let (broker, clock) = with_clock(&server).await;
    for (count, after) in [("1.5", "2"), ("inf", "4294967296"), ("9223372036854775807", "4294967296"), ("text", "1")] {
        let () = redis::cmd("FLUSHALL").query_async(&mut redis).await.unwrap();
        put(&broker, &["a", "b", "c"]).await;
        assert_eq!(take(&broker, &member("me"), 3).await.len(), 3);
        let () = redis.hset("asynq:{default}:t:b", "crashes", count).await.unwrap();
        clock.advance(Duration::from_secs(31));
        let recovered = broker.recover(&[queue()]).await.unwrap();
        let back: Vec<&str> = recovered.tasks.iter().map(|(_, id)| id.as_str()).collect();
        assert_eq!(back, ["a", "b", "c"], "{count}");
        for (id, expected) in [("a", "1"), ("b", after), ("c", "1")] {
            let found: String = redis.hget(format!("asynq:{{default}}:t:{id}"), "crashes").await.unwrap();
            assert_eq!(found, expected, "{count} of {id}");
        }
        let stats = broker.queue_stats(&queue()).await.unwrap();
        assert_eq!((stats.pending, stats.active), (3, 0), "{count}");
    }
}
