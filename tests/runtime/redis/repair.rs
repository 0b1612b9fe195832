//! Repairs: leftovers of Go, foreign keys, full memory.

use asynq_runtime::broker::{
    Broker, BrokerErrorKind, BulkAction, Changed, Chosen, Groups, Inspect, Page, Produce, QueueDeleted, Repair,
    redis::RedisBroker,
};
use asynq_runtime::task::{GroupName, QueueName, TaskId, TaskState};
use redis::{AsyncCommands, aio::MultiplexedConnection};

use super::{server::Server, tasks::*};

pub(crate) fn low() -> QueueName {
    QueueName::new("low").unwrap()
}

pub(crate) async fn set(redis: &mut MultiplexedConnection, words: &[&str]) {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    let _: redis::Value = command.query_async(redis).await.unwrap();
}

/// Returns every place of both queues where the task is.
pub(crate) async fn places(broker: &RedisBroker, id: &TaskId) -> Vec<(QueueName, TaskState)> {
    let mut found = Vec::new();
    for queue in [queue(), low()] {
        for state in TaskState::ALL {
            let tasks = broker.tasks(&queue, state, Page { number: 1, size: 500 }).await.unwrap();
            found.extend(tasks.iter().filter(|task| task.id == *id).map(|_| (queue.clone(), state)));
        }
    }
    found
}

async fn places_in(broker: &RedisBroker, queue: &QueueName, name: &str) -> Vec<TaskState> {
    broker.task(queue, &id(name)).await.unwrap().map(|task| task.state).into_iter().collect()
}

async fn change(broker: &RedisBroker, name: &str, action: BulkAction) -> Changed {
    broker.change_task(&queue(), &id(name), None, action).await.unwrap()
}

/// Leaves a task behind as Go's trim does, which drops its id from the archive, or an outcome of Go that broke off half way.
async fn leave_behind(redis: &mut MultiplexedConnection, name: &str, state: &str) {
    let key = format!("asynq:{{default}}:t:{name}");
    let () = redis.hset(&key, "msg", task(name).message.encode()).await.unwrap();
    let () = redis.hset(&key, "state", state).await.unwrap();
}

#[tokio::test]
async fn a_task_that_go_left_in_no_state_can_be_run_archived_and_deleted() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    for state in ["archived", "active", "scheduled", "waiting"] {
        for name in ["run", "archive", "delete"] {
            leave_behind(&mut redis, name, state).await;
        }
        assert_eq!(change(&broker, "run", BulkAction::Run).await, Changed::Done, "{state}");
        assert_eq!(change(&broker, "archive", BulkAction::Archive).await, Changed::Done, "{state}");
        assert_eq!(change(&broker, "delete", BulkAction::Delete).await, Changed::Done, "{state}");
        assert_eq!(places(&broker, &id("run")).await, [(queue(), TaskState::Pending)]);
        assert_eq!(places(&broker, &id("archive")).await, [(queue(), TaskState::Archived)]);
        assert_eq!(broker.task(&queue(), &id("delete")).await.unwrap(), None);
        for name in ["run", "archive"] {
            assert_eq!(change(&broker, name, BulkAction::Delete).await, Changed::Done);
        }
    }
    // The id is elsewhere than the state says.
    leave_behind(&mut redis, "run", "archived").await;
    set(&mut redis, &["ZADD", "asynq:{default}:retry", "1", "run"]).await;
    assert_eq!(change(&broker, "run", BulkAction::Run).await, Changed::Done);
    assert_eq!(places(&broker, &id("run")).await, [(queue(), TaskState::Pending)]);
}

#[tokio::test]
async fn the_lock_of_a_go_task_in_a_group_is_freed_although_no_field_names_it() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let lock = "asynq:{default}:unique:email:5d41402abc4b2a76b9719d911017c592";
    for (bulk, run_first) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut message = task("t1").message;
        (message.unique_key, message.group_key) = (lock.into(), "g".into());
        let () = redis.hset("asynq:{default}:t:t1", "msg", message.encode()).await.unwrap();
        set(&mut redis, &["HSET", "asynq:{default}:t:t1", "state", "aggregating", "group", "g"]).await;
        set(&mut redis, &["ZADD", "asynq:{default}:g:g", "1700000000", "t1"]).await;
        set(&mut redis, &["SADD", "asynq:{default}:groups", "g"]).await;
        set(&mut redis, &["SET", lock, "t1"]).await;
        let mut chosen = Chosen::InGroup(GroupName::new("g").unwrap());
        if run_first {
            if bulk {
                assert_eq!(broker.change_some(&queue(), &chosen, BulkAction::Run, 100).await.unwrap().changed, 1);
            } else {
                assert_eq!(change(&broker, "t1", BulkAction::Run).await, Changed::Done);
            }
            let group: Option<String> = redis.hget("asynq:{default}:t:t1", "group").await.unwrap();
            assert_eq!(group, None, "no retry leads back to it");
            chosen = Chosen::InState(TaskState::Pending);
        }
        if bulk {
            let done = broker.change_some(&queue(), &chosen, BulkAction::Delete, 100).await.unwrap();
            assert_eq!(done.changed, 1);
        } else {
            assert_eq!(change(&broker, "t1", BulkAction::Delete).await, Changed::Done);
        }
        let left: Vec<String> = redis.keys("asynq:{default}:*").await.unwrap();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Without a lock in the hash the message is read, where asynq may have written one; a slice reads no more than about a megabyte.
#[tokio::test]
async fn a_slice_of_large_grouped_tasks_is_a_small_one() {
    let server = Server::start(&[]);
    let broker = server.broker().await;
    let group = GroupName::new("g").unwrap();
    for n in 0..20 {
        let mut grouped = task(&format!("t{n}"));
        grouped.message.payload = vec![b'x'; 200_000].into();
        grouped.message.group_key = "g".into();
        grouped.group = Some(group.clone());
        broker.enqueue(vec![grouped]).await.remove(0).unwrap();
    }
    let chosen = Chosen::InGroup(group);
    let (mut changed, mut slices) = (0, 0);
    loop {
        let slice = broker.change_some(&queue(), &chosen, BulkAction::Run, 100).await.unwrap();
        assert!(slice.changed <= 6, "{slice:?}");
        (changed, slices) = (changed + slice.changed, slices + 1);
        if !slice.more {
            break;
        }
    }
    assert_eq!((changed, slices), (20, 4));
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().pending, 20);
}

#[tokio::test]
async fn an_empty_queue_is_deleted_with_every_leftover_of_asynq_and_no_foreign_key() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    set(&mut redis, &["SADD", "asynq:queues", "default", "d*"]).await;
    set(&mut redis, &["HSET", "asynq:{d*}:t:other", "state", "pending"]).await;
    for n in 0..350 {
        leave_behind(&mut redis, &format!("leak{n}"), "archived").await;
        set(&mut redis, &["SET", &format!("asynq:{{default}}:unique:email:{n}"), "gone"]).await;
    }
    for words in [
        ["ZADD", "asynq:{default}:g:old", "1", "ghost"],
        ["ZADD", "asynq:{default}:lease", "1", "ghost"],
        ["SADD", "asynq:{default}:groups", "old", "older"],
        ["ZADD", "asynq:{default}:g:old:8e99094e-15f2-4d47-8e44-723a25eb3551", "1", "ghost"],
        ["ZADD", "asynq:{default}:aggregation_sets", "1", "asynq:{default}:g:old:8e99094e-15f2-4d47-8e44-723a25eb3551"],
        ["ZADD", "asynq:{default}:x:due", "1", "s:ghost"],
    ] {
        set(&mut redis, &words).await;
    }
    for key in ["processed", "failed", "processed:2030-01-01", "failed:2030-01-01", "paused", "rs:something"] {
        set(&mut redis, &["SET", &format!("asynq:{{default}}:{key}"), "1"]).await;
    }
    assert_eq!(broker.delete_queue(&queue()).await.unwrap(), QueueDeleted::Done);
    let left: Vec<String> = redis.keys("asynq:{default}:*").await.unwrap();
    assert_eq!(left, ["asynq:{default}:rs:something"]);
    let other = QueueName::from_wire("d*");
    assert_eq!(broker.delete_queue(&other).await.unwrap(), QueueDeleted::Done, "a wildcard is a letter");
}

/// The walk finds the keys in the order of the server, so one queue of several would show a pause that goes too early.
#[tokio::test]
async fn a_queue_that_is_not_deleted_stays_paused() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    for n in 0..20 {
        let queue = QueueName::from_wire(&format!("q{n}"));
        let key = |name: &str| format!("asynq:{{q{n}}}:{name}");
        set(&mut redis, &["SADD", "asynq:queues", queue.as_str()]).await;
        for lock in 0..300 {
            set(&mut redis, &["SET", &key(&format!("unique:email:{lock}")), "gone"]).await;
        }
        // It counts as a task, and is seen only in the slice of keys that it is in, as a task that comes meanwhile.
        set(&mut redis, &["LPUSH", &key("g:foreign"), "one"]).await;
        assert!(broker.pause(&queue).await.unwrap());
        assert_eq!(broker.delete_queue(&queue).await.unwrap(), QueueDeleted::NotEmpty);
        assert!(redis.exists::<_, bool>(key("paused")).await.unwrap(), "{queue}");
    }
}

#[tokio::test]
async fn a_deletion_that_broke_off_is_ended_by_its_repeat() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    set(&mut redis, &["SET", "asynq:{default}:paused", "1700000000"]).await;
    assert_eq!(broker.delete_queue(&queue()).await.unwrap(), QueueDeleted::NotFound);
    assert!(!redis.exists::<_, bool>("asynq:{default}:paused").await.unwrap());
}

#[tokio::test]
async fn a_group_that_is_not_known_keeps_its_queue() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    set(&mut redis, &["SADD", "asynq:queues", "default"]).await;
    leave_behind(&mut redis, "t1", "aggregating").await;
    set(&mut redis, &["ZADD", "asynq:{default}:g:stranded", "1700000000", "t1"]).await;
    let before: Vec<String> = redis.keys("*").await.unwrap();
    assert_eq!(broker.delete_queue(&queue()).await.unwrap(), QueueDeleted::NotEmpty);
    let after: Vec<String> = redis.keys("*").await.unwrap();
    assert_eq!(before.len(), after.len());
    assert!(broker.groups(&queue(), None, 10).await.unwrap().groups.is_empty(), "stats do not know of it");
}

#[tokio::test]
async fn foreign_keys_stop_a_repair_before_it_changes_anything() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    put(&broker, &["t1"]).await;
    assert_eq!(change(&broker, "t1", BulkAction::Archive).await, Changed::Done);
    set(&mut redis, &["SET", "asynq:{default}:pending", "foreign"]).await;
    let refused = broker.change_task(&queue(), &id("t1"), None, BulkAction::Run).await.unwrap_err();
    assert_eq!(refused.kind(), BrokerErrorKind::Corrupt);
    let archived = Chosen::InState(TaskState::Archived);
    assert!(broker.change_some(&queue(), &archived, BulkAction::Run, 10).await.is_err());
    assert_eq!(places_in(&broker, &queue(), "t1").await, [TaskState::Archived]);
    let deleted = broker.change_some(&queue(), &archived, BulkAction::Delete, 10).await.unwrap();
    assert_eq!((deleted.changed, deleted.more), (1, false), "a step that needs no pending goes on");

    set(&mut redis, &["SET", "asynq:{default}:t:string", "no task"]).await;
    for changed in [
        change(&broker, "string", BulkAction::Run).await,
        change(&broker, "string", BulkAction::Delete).await,
        broker.end_orphan(&queue(), &id("string"), "lost").await.unwrap(),
        broker.move_task(&queue(), &id("string"), &low()).await.unwrap(),
    ] {
        assert_eq!(changed, Changed::NotFound);
    }
    assert!(broker.failures(&queue(), &id("string")).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_text_in_place_of_an_expiry_does_not_stop_a_slice_half_way() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    put(&broker, &["t1", "t2"]).await;
    for name in ["t1", "t2"] {
        assert_eq!(change(&broker, name, BulkAction::Archive).await, Changed::Done);
    }
    // Field 3 of the message in x.
    set(&mut redis, &["HSET", "asynq:{default}:t:t1", "x", "\x1a\x01x"]).await;
    let archived = Chosen::InState(TaskState::Archived);
    assert_eq!(broker.change_some(&queue(), &archived, BulkAction::Run, 100).await.unwrap().changed, 2);
    for name in ["t1", "t2"] {
        assert_eq!(places_in(&broker, &queue(), name).await, [TaskState::Pending], "{name}");
    }
}

#[tokio::test]
async fn a_full_redis_can_be_emptied() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    put(&broker, &["a", "b", "c"]).await;
    limit_memory(&mut redis, "1").await;
    assert_eq!(change(&broker, "b", BulkAction::Archive).await, Changed::Done);
    assert_eq!(change(&broker, "a", BulkAction::Delete).await, Changed::Done);
    let pending = Chosen::InState(TaskState::Pending);
    assert_eq!(broker.change_some(&queue(), &pending, BulkAction::Delete, 10).await.unwrap().changed, 1);
    assert_eq!(change(&broker, "b", BulkAction::Delete).await, Changed::Done);
    assert_eq!(broker.delete_queue(&queue()).await.unwrap(), QueueDeleted::Done);
    broker.close().await;
}

#[tokio::test]
async fn a_group_that_cannot_be_forgotten_keeps_no_task_in_two_places() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    for name in ["run", "archive", "delete"] {
        let mut new = task(name);
        new.group = Some(GroupName::new(name).unwrap());
        new.message.group_key = name.into();
        asynq_runtime::broker::Produce::enqueue(&broker, vec![new]).await.remove(0).unwrap();
    }
    set(&mut redis, &["DEL", "asynq:{default}:groups"]).await;
    set(&mut redis, &["SET", "asynq:{default}:groups", "foreign"]).await;
    assert_eq!(change(&broker, "run", BulkAction::Run).await, Changed::Done);
    assert_eq!(change(&broker, "archive", BulkAction::Archive).await, Changed::Done);
    assert_eq!(change(&broker, "delete", BulkAction::Delete).await, Changed::Done);
    set(&mut redis, &["DEL", "asynq:{default}:groups"]).await;
    assert_eq!(places(&broker, &id("run")).await, [(queue(), TaskState::Pending)]);
    assert_eq!(places(&broker, &id("archive")).await, [(queue(), TaskState::Archived)]);
    assert_eq!(places(&broker, &id("delete")).await, []);
}

#[tokio::test]
async fn an_orphan_is_not_ended_half_way() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    put(&broker, &["t1"]).await;
    assert_eq!(take(&broker, &member("me"), 1).await.len(), 1);
    set(&mut redis, &["ZADD", "asynq:{default}:lease", "1", "t1"]).await;
    for foreign in ["x:due", "retry", "archived"] {
        let key = format!("asynq:{{default}}:{foreign}");
        set(&mut redis, &["SET", &key, "foreign"]).await;
        let refused = broker.end_orphan(&queue(), &id("t1"), "lost").await.unwrap_err();
        assert_eq!(refused.kind(), BrokerErrorKind::Corrupt, "{foreign}");
        set(&mut redis, &["DEL", &key]).await;
        assert_eq!(places(&broker, &id("t1")).await, [(queue(), TaskState::Active)], "{foreign}");
    }
    set(&mut redis, &["RENAME", "asynq:{default}:active", "aside"]).await;
    set(&mut redis, &["SET", "asynq:{default}:active", "foreign"]).await;
    let refused = broker.end_orphan(&queue(), &id("t1"), "lost").await.unwrap_err();
    assert_eq!(refused.kind(), BrokerErrorKind::Corrupt);
    set(&mut redis, &["RENAME", "aside", "asynq:{default}:active"]).await;
    assert_eq!(places(&broker, &id("t1")).await, [(queue(), TaskState::Active)], "active");
    assert_eq!(broker.end_orphan(&queue(), &id("t1"), "lost").await.unwrap(), Changed::Done);
    assert_eq!(places(&broker, &id("t1")).await, [(queue(), TaskState::Retry)]);
}

#[tokio::test]
async fn an_orphan_that_has_ended_leaves_no_lease() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let lock = "asynq:{default}:unique:email:k";
    for (name, retries, is_replaced) in [("retried", 1, false), ("archived", 0, false), ("replaced", 1, true)] {
        let mut new = task(name);
        new.message.retry = retries;
        Produce::enqueue(&broker, vec![new]).await.remove(0).unwrap();
        assert_eq!(take(&broker, &member("me"), 1).await.len(), 1);
        set(&mut redis, &["ZADD", "asynq:{default}:lease", "1", name]).await;
        let key = format!("asynq:{{default}}:t:{name}");
        if is_replaced {
            // A tick of other arguments leaves this mark, and the lock of the former ones.
            let () = redis.hset(&key, "x", &b"\x38\x01\x60\x00"[..]).await.unwrap();
            set(&mut redis, &["HSET", &key, "unique_key", lock]).await;
            set(&mut redis, &["SET", lock, name]).await;
        }
        assert_eq!(broker.end_orphan(&queue(), &id(name), "lost").await.unwrap(), Changed::Done);
        assert_eq!(redis.exists::<_, bool>(&key).await.unwrap(), !is_replaced, "{name}");
        assert!(!redis.exists::<_, bool>("asynq:{default}:lease").await.unwrap(), "{name}");
    }
    assert!(!redis.exists::<_, bool>(lock).await.unwrap(), "the lock goes with its task");
}

#[tokio::test]
async fn one_foreign_group_hides_no_other() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let mut new = task("t1");
    new.group = Some(GroupName::new("g").unwrap());
    asynq_runtime::broker::Produce::enqueue(&broker, vec![new]).await.remove(0).unwrap();
    set(&mut redis, &["SADD", "asynq:{default}:groups", "foreign"]).await;
    set(&mut redis, &["SET", "asynq:{default}:g:foreign", "no group"]).await;
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().aggregating, 1);
    assert_eq!(places(&broker, &id("t1")).await, [(queue(), TaskState::Aggregating)]);
    assert!(broker.memory_usage(&queue()).await.unwrap() > 0);
    let all = Chosen::InState(TaskState::Aggregating);
    let slice = broker.change_some(&queue(), &all, BulkAction::Run, 100).await.unwrap();
    assert_eq!((slice.changed, slice.more), (1, false));
    assert_eq!(places(&broker, &id("t1")).await, [(queue(), TaskState::Pending)]);
}
