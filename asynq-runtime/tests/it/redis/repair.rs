//! Repairs: moves that break off anywhere, leftovers of Go, foreign keys, full memory.

use std::time::Duration;

use asynq_runtime::broker::{
    Broker, BrokerErrorKind, BulkAction, Changed, Chosen, Groups, Inspect, Maintain, Page, QueueDeleted, Repair,
    RetryOrder, When, redis::RedisBroker,
};
use asynq_runtime::task::{GroupName, QueueName, TaskId, TaskState};
use chrono::DateTime;
use redis::{AsyncCommands, aio::MultiplexedConnection};

use super::{
    server::{Proxy, Server, patient},
    tasks::*,
};

fn low() -> QueueName {
    QueueName::new("low").unwrap()
}

fn id(id: &str) -> TaskId {
    TaskId::new(id).unwrap()
}

async fn set(redis: &mut MultiplexedConnection, words: &[&str]) {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    let _: redis::Value = command.query_async(redis).await.unwrap();
}

/// Returns every place of both queues where the task is.
async fn places(broker: &RedisBroker, id: &TaskId) -> Vec<(QueueName, TaskState)> {
    let mut found = Vec::new();
    for queue in [queue(), low()] {
        for state in TaskState::ALL {
            let tasks = broker.tasks(&queue, state, Page { number: 1, size: 500 }).await.unwrap();
            found.extend(tasks.iter().filter(|task| task.id == *id).map(|_| (queue.clone(), state)));
        }
    }
    found
}

/// Returns in how many places the task would be run one day.
async fn would_run(broker: &RedisBroker, id: &TaskId) -> usize {
    let end = DateTime::parse_from_rfc3339("9999-12-31T23:59:59Z").unwrap();
    let mut runs = 0;
    for queue in [queue(), low()] {
        let task = broker.task(&queue, id).await.unwrap();
        runs += usize::from(task.is_some_and(|task| task.next_process_at.is_none_or(|at| at != end)));
    }
    runs
}

#[tokio::test]
async fn a_move_that_breaks_off_at_any_step_goes_on_when_it_is_requested_again() {
    let server = Server::start(&[]).await;
    let proxy = Proxy::before(&server);
    let direct = server.broker().await;
    let broker = RedisBroker::connect(&proxy.url(), patient()).await.unwrap();
    let (mut broken, mut number) = (0, 0);
    for state in [TaskState::Pending, TaskState::Scheduled, TaskState::Aggregating] {
        for lost in 1..=9 {
            number += 1;
            let id = id(&format!("t{number}"));
            let mut new = task(id.as_str());
            match state {
                TaskState::Scheduled => new.when = When::In(Duration::from_secs(600)),
                TaskState::Aggregating => {
                    new.group = Some(GroupName::new("g").unwrap());
                    new.message.group_key = "g".into();
                }
                _ => {}
            }
            for answer in asynq_runtime::broker::Produce::enqueue(&direct, vec![new]).await {
                answer.unwrap();
            }
            proxy.lose_every(lost);
            for _ in 0..20 {
                let moved = broker.move_task(&queue(), &id, &low()).await;
                // A task that is on its way survives the strictest housekeeping.
                for queue in [queue(), low()] {
                    direct.trim_archive(&queue, Duration::ZERO, 0, 100).await.unwrap();
                    direct.delete_expired(&queue, 100).await.unwrap();
                }
                let found = places(&direct, &id).await;
                let runnable = would_run(&direct, &id).await;
                assert!(!found.is_empty(), "lost at {lost}");
                assert!(runnable <= 1, "two copies would run: {found:?}");
                proxy.lose_every(0);
                match moved {
                    Ok(_) => break,
                    Err(_) => broken += 1,
                }
            }
            assert_eq!(places(&direct, &id).await, [(low(), state)], "{state} lost at {lost}");
            let moved = direct.task(&low(), &id).await.unwrap().unwrap();
            assert_eq!((moved.last_error, moved.group.is_some()), (None, state == TaskState::Aggregating));
        }
    }
    assert!(broken >= 15, "only {broken} moves broke off");
}

#[tokio::test]
async fn a_task_that_was_held_and_then_run_by_hand_is_not_moved_any_more() {
    let server = Server::start(&[]).await;
    let broker = server.broker().await;
    let mut redis = server.foreign().await;
    put(&broker, &["t1"]).await;
    // The other queue has a key of a foreign type: the move breaks off with the task held.
    set(&mut redis, &["SET", "asynq:{low}:scheduled", "foreign"]).await;
    assert!(broker.move_task(&queue(), &id("t1"), &low()).await.is_err());
    assert_eq!(places_in(&broker, &queue(), "t1").await, [TaskState::Scheduled]);
    let info = broker.task(&queue(), &id("t1")).await.unwrap().unwrap();
    assert!(info.last_error.unwrap().contains(r#"to "low""#), "people can see why");
    let elsewhere = broker.move_task(&queue(), &id("t1"), &QueueName::new("high").unwrap()).await.unwrap();
    assert_eq!(elsewhere, Changed::Unfit(TaskState::Scheduled), "it is on its way to another queue");
    assert_eq!(broker.trim_archive(&queue(), Duration::ZERO, 0, 100).await.unwrap(), 0, "no housekeeping deletes it");
    assert_eq!(broker.forward(&[queue()], RetryOrder::Last).await.unwrap().moved, 0, "nothing runs it");
    assert_eq!(broker.run_task(&queue(), &id("t1")).await.unwrap(), Changed::Done);
    set(&mut redis, &["DEL", "asynq:{low}:scheduled"]).await;
    assert_eq!(places(&broker, &id("t1")).await, [(queue(), TaskState::Pending)]);
    assert_eq!(broker.move_task(&queue(), &id("t1"), &low()).await.unwrap(), Changed::Done);
    assert_eq!(places(&broker, &id("t1")).await, [(low(), TaskState::Pending)]);
}

async fn places_in(broker: &RedisBroker, queue: &QueueName, name: &str) -> Vec<TaskState> {
    broker.task(queue, &id(name)).await.unwrap().map(|task| task.state).into_iter().collect()
}

/// Leaves a task behind as Go's trim does, which drops its id from the archive, or an outcome of Go that broke off half way.
async fn leave_behind(redis: &mut MultiplexedConnection, name: &str, state: &str) {
    let key = format!("asynq:{{default}}:t:{name}");
    let () = redis.hset(&key, "msg", task(name).message.encode()).await.unwrap();
    let () = redis.hset(&key, "state", state).await.unwrap();
}

#[tokio::test]
async fn a_task_that_go_left_in_no_state_can_be_run_archived_and_deleted() {
    let server = Server::start(&[]).await;
    let broker = server.broker().await;
    let mut redis = server.foreign().await;
    for state in ["archived", "active", "scheduled", "waiting"] {
        for name in ["run", "archive", "delete"] {
            leave_behind(&mut redis, name, state).await;
        }
        assert_eq!(broker.run_task(&queue(), &id("run")).await.unwrap(), Changed::Done, "{state}");
        assert_eq!(broker.archive_task(&queue(), &id("archive")).await.unwrap(), Changed::Done, "{state}");
        assert_eq!(broker.delete_task(&queue(), &id("delete")).await.unwrap(), Changed::Done, "{state}");
        assert_eq!(places(&broker, &id("run")).await, [(queue(), TaskState::Pending)]);
        assert_eq!(places(&broker, &id("archive")).await, [(queue(), TaskState::Archived)]);
        assert_eq!(broker.task(&queue(), &id("delete")).await.unwrap(), None);
        for name in ["run", "archive"] {
            assert_eq!(broker.delete_task(&queue(), &id(name)).await.unwrap(), Changed::Done);
        }
    }
}

#[tokio::test]
async fn the_lock_of_a_go_task_in_a_group_is_freed_although_no_field_names_it() {
    let server = Server::start(&[]).await;
    let broker = server.broker().await;
    let mut redis = server.foreign().await;
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
                assert_eq!(broker.run_task(&queue(), &id("t1")).await.unwrap(), Changed::Done);
            }
            let group: Option<String> = redis.hget("asynq:{default}:t:t1", "group").await.unwrap();
            assert_eq!(group, None, "no retry leads back to it");
            chosen = Chosen::InState(TaskState::Pending);
        }
        if bulk {
            let done = broker.change_some(&queue(), &chosen, BulkAction::Delete, 100).await.unwrap();
            assert_eq!(done.changed, 1);
        } else {
            assert_eq!(broker.delete_task(&queue(), &id("t1")).await.unwrap(), Changed::Done);
        }
        let left: Vec<String> = redis.keys("asynq:{default}:*").await.unwrap();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[tokio::test]
async fn an_empty_queue_is_deleted_with_every_leftover_of_asynq_and_no_foreign_key() {
    let server = Server::start(&[]).await;
    let broker = server.broker().await;
    let mut redis = server.foreign().await;
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

#[tokio::test]
async fn a_group_that_is_not_known_keeps_its_queue() {
    let server = Server::start(&[]).await;
    let broker = server.broker().await;
    let mut redis = server.foreign().await;
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
    let server = Server::start(&[]).await;
    let broker = server.broker().await;
    let mut redis = server.foreign().await;
    put(&broker, &["t1"]).await;
    assert_eq!(broker.archive_task(&queue(), &id("t1")).await.unwrap(), Changed::Done);
    set(&mut redis, &["SET", "asynq:{default}:pending", "foreign"]).await;
    let refused = broker.run_task(&queue(), &id("t1")).await.unwrap_err();
    assert_eq!(refused.kind(), BrokerErrorKind::Corrupt);
    let archived = Chosen::InState(TaskState::Archived);
    assert!(broker.change_some(&queue(), &archived, BulkAction::Run, 10).await.is_err());
    assert_eq!(places_in(&broker, &queue(), "t1").await, [TaskState::Archived]);
    let deleted = broker.change_some(&queue(), &archived, BulkAction::Delete, 10).await.unwrap();
    assert_eq!((deleted.changed, deleted.more), (1, false), "a step that needs no pending goes on");

    set(&mut redis, &["SET", "asynq:{default}:t:string", "no task"]).await;
    for changed in [
        broker.run_task(&queue(), &id("string")).await.unwrap(),
        broker.delete_task(&queue(), &id("string")).await.unwrap(),
        broker.end_orphan(&queue(), &id("string"), "lost").await.unwrap(),
        broker.move_task(&queue(), &id("string"), &low()).await.unwrap(),
    ] {
        assert_eq!(changed, Changed::NotFound);
    }
    assert!(broker.failures(&queue(), &id("string")).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_full_redis_can_be_emptied() {
    let server = Server::start(&[]).await;
    let broker = server.broker().await;
    let mut redis = server.foreign().await;
    put(&broker, &["a", "b", "c"]).await;
    set(&mut redis, &["CONFIG", "SET", "maxmemory", "1"]).await;
    assert_eq!(broker.archive_task(&queue(), &id("b")).await.unwrap(), Changed::Done);
    assert_eq!(broker.delete_task(&queue(), &id("a")).await.unwrap(), Changed::Done);
    let pending = Chosen::InState(TaskState::Pending);
    assert_eq!(broker.change_some(&queue(), &pending, BulkAction::Delete, 10).await.unwrap().changed, 1);
    assert_eq!(broker.delete_task(&queue(), &id("b")).await.unwrap(), Changed::Done);
    assert_eq!(broker.delete_queue(&queue()).await.unwrap(), QueueDeleted::Done);
    broker.close().await;
}

#[tokio::test]
async fn a_group_that_cannot_be_forgotten_keeps_no_task_in_two_places() {
    let server = Server::start(&[]).await;
    let broker = server.broker().await;
    let mut redis = server.foreign().await;
    for name in ["run", "archive", "delete"] {
        let mut new = task(name);
        new.group = Some(GroupName::new(name).unwrap());
        new.message.group_key = name.into();
        asynq_runtime::broker::Produce::enqueue(&broker, vec![new]).await.remove(0).unwrap();
    }
    set(&mut redis, &["DEL", "asynq:{default}:groups"]).await;
    set(&mut redis, &["SET", "asynq:{default}:groups", "foreign"]).await;
    assert_eq!(broker.run_task(&queue(), &id("run")).await.unwrap(), Changed::Done);
    assert_eq!(broker.archive_task(&queue(), &id("archive")).await.unwrap(), Changed::Done);
    assert_eq!(broker.delete_task(&queue(), &id("delete")).await.unwrap(), Changed::Done);
    set(&mut redis, &["DEL", "asynq:{default}:groups"]).await;
    assert_eq!(places(&broker, &id("run")).await, [(queue(), TaskState::Pending)]);
    assert_eq!(places(&broker, &id("archive")).await, [(queue(), TaskState::Archived)]);
    assert_eq!(places(&broker, &id("delete")).await, []);
}

#[tokio::test]
async fn a_move_that_cannot_arrive_leaves_nothing_half_way() {
    for (state, foreign, half) in [
        (TaskState::Scheduled, "x:due", "pending"),
        (TaskState::Aggregating, "groups", "g:g"),
        (TaskState::Pending, "pending", "x:due"),
    ] {
        let server = Server::start(&[]).await;
        let broker = server.broker().await;
        let mut redis = server.foreign().await;
        let mut new = task("t1");
        match state {
            TaskState::Scheduled => new.when = When::In(Duration::from_secs(600)),
            TaskState::Aggregating => new.group = Some(GroupName::new("g").unwrap()),
            _ => {}
        }
        asynq_runtime::broker::Produce::enqueue(&broker, vec![new]).await.remove(0).unwrap();
        let foreign = format!("asynq:{{low}}:{foreign}");
        set(&mut redis, &["SET", &foreign, "foreign"]).await;
        assert!(broker.move_task(&queue(), &id("t1"), &low()).await.is_err(), "{foreign}");
        assert!(!redis.exists::<_, bool>(format!("asynq:{{low}}:{half}")).await.unwrap(), "{half} has it already");
        set(&mut redis, &["DEL", &foreign]).await;
        assert_eq!(would_run(&broker, &id("t1")).await, 0, "{foreign}: it is held");
        assert_eq!(broker.move_task(&queue(), &id("t1"), &low()).await.unwrap(), Changed::Done);
        assert_eq!(places(&broker, &id("t1")).await, [(low(), state)]);
    }
}

#[tokio::test]
async fn an_orphan_is_not_ended_half_way() {
    let server = Server::start(&[]).await;
    let broker = server.broker().await;
    let mut redis = server.foreign().await;
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
    assert_eq!(broker.end_orphan(&queue(), &id("t1"), "lost").await.unwrap(), Changed::Done);
    assert_eq!(places(&broker, &id("t1")).await, [(queue(), TaskState::Retry)]);
}

#[tokio::test]
async fn one_foreign_group_hides_no_other() {
    let server = Server::start(&[]).await;
    let broker = server.broker().await;
    let mut redis = server.foreign().await;
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
