//! Waits for the ends of tasks: their cost on Redis, and their answers when Redis is away.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::{
    TaskState,
    broker::{Broker, Inspect, TaskEnd, redis::RedisBroker},
};
use asynq_test_support::{eventually, soon};
use redis::{AsyncCommands, aio::MultiplexedConnection};
use tokio::task::JoinHandle;

use super::{
    server::{BRIEF, Server, patient},
    tasks::*,
};

fn wait(broker: &Arc<RedisBroker>, task: &str, limit: Duration) -> JoinHandle<TaskEnd> {
    let (broker, task) = (Arc::clone(broker), id(task));
    tokio::spawn(async move { broker.wait_for_end(&queue(), &task, limit).await.unwrap() })
}

async fn clients(redis: &mut MultiplexedConnection) -> usize {
    let list: String = redis::cmd("CLIENT").arg("LIST").query_async(redis).await.unwrap();
    list.lines().count()
}

/// The commands by which a Go worker completes a task that is kept.
fn completed(task: &str) -> redis::Pipeline {
    let mut pipeline = redis::pipe();
    pipeline.atomic().hset(format!("asynq:{{default}}:t:{task}"), "state", "completed").ignore();
    pipeline
}

#[tokio::test]
async fn thousands_of_waiters_cost_one_question_each_and_then_nothing() {
    const WAITERS: usize = 2_000;
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let broker = Arc::new(server.broker().await);
    let names: Vec<String> = (0..WAITERS).map(|n| format!("t{n}")).collect();
    for names in names.chunks(500) {
        put(&broker, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
    let begun = Instant::now();
    // Each wait asks again after 15 seconds without a notification; a busy machine makes the time longer.
    let most = || WAITERS as u64 * (1 + begun.elapsed().as_secs() / 15);
    // The first wait opens the one connection on which all of them wait.
    let first = wait(&broker, "t0", HOUR);
    until_tracked(&mut redis, 1).await;
    let connections = clients(&mut redis).await;
    let mut waiters: Vec<_> = names[1..].iter().map(|name| wait(&broker, name, HOUR)).collect();
    until_tracked(&mut redis, WAITERS as u64).await;
    let asked = calls(&mut redis, "hmget").await;
    assert!((WAITERS as u64..=most()).contains(&asked), "one question each: {asked}");
    assert_eq!(clients(&mut redis).await, connections, "on one connection");

    // Redis is asked nothing about the other tasks when one ends. Its waiter looks, and reads the task as a whole by a script.
    let () = completed("t7").query_async(&mut redis).await.unwrap();
    let ended = soon(waiters.remove(6)).await.unwrap();
    assert!(matches!(ended, TaskEnd::Stored(task) if task.id == "t7" && task.state == TaskState::Completed));
    let asked = calls(&mut redis, "hmget").await;
    assert!((WAITERS as u64 + 2..=most() + 2).contains(&asked), "a look and a read: {asked}");
    assert_eq!(clients(&mut redis).await, connections + 1, "reading has a connection of its own");
    waiters.iter().for_each(JoinHandle::abort);
    first.abort();
}

#[tokio::test]
async fn a_task_that_is_deleted_during_a_wait_leaves_no_key_in_the_tracking_table() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let broker = Arc::new(server.broker().await);
    put(&broker, &["t1"]).await;
    let waiter = wait(&broker, "t1", HOUR);
    until_tracked(&mut redis, 1).await;
    // After a change that is not the end, the next one is announced as well.
    let () = redis.hset("asynq:{default}:t:t1", "state", "active").await.unwrap();
    let has_looked = async || (calls(&mut redis, "hmget").await >= 3).then_some(());
    eventually("both connections have looked", has_looked).await;
    let () = redis.del("asynq:{default}:t:t1").await.unwrap();
    assert_eq!(soon(waiter).await.unwrap(), TaskEnd::Gone);
    assert_eq!(tracked_keys(&mut redis).await, 0);
}

#[tokio::test]
async fn an_end_during_a_lost_connection_is_reported() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let broker = Arc::new(server.broker().await);
    for round in 0..5 {
        let name = format!("t{round}");
        put(&broker, &[&name]).await;
        let waiter = wait(&broker, &name, HOUR);
        until_tracked(&mut redis, 1).await;
        // Both happen in one step: no waiter is connected when the task ends.
        let mut pipeline = redis::pipe();
        pipeline.atomic().cmd("CLIENT").arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"]).ignore();
        pipeline.hset(format!("asynq:{{default}}:t:{name}"), "state", "completed").ignore();
        let () = pipeline.query_async(&mut redis).await.unwrap();
        assert!(matches!(soon(waiter).await.unwrap(), TaskEnd::Stored(task) if task.id == *name));
    }
}

#[tokio::test]
async fn a_redis_that_comes_back_without_the_task_ends_the_wait() {
    let mut server = Server::start(&[]);
    let broker = Arc::new(server.broker().await);
    put(&broker, &["t1"]).await;
    let waiter = wait(&broker, "t1", HOUR);
    until_tracked(&mut server.foreign().await, 1).await;
    server.restart();
    assert_eq!(soon(waiter).await.unwrap(), TaskEnd::Gone);
}

#[tokio::test]
async fn a_wait_is_over_at_its_limit_also_while_redis_stands_still() {
    let server = Server::start(&[]);
    let broker = Arc::new(server.broker().await);
    put(&broker, &["t1"]).await;
    let waiter = wait(&broker, "t1", BRIEF);
    until_tracked(&mut server.foreign().await, 1).await;
    let stopped = server.stop();
    // The task was seen before, and no notification was received since.
    assert_eq!(soon(waiter).await.unwrap(), TaskEnd::NotYet(TaskState::Pending));
    // Nothing is known of the task of this wait, which does not last as long as a call may.
    let unknown = soon(broker.wait_for_end(&queue(), &id("t1"), Duration::from_millis(200))).await;
    assert!(unknown.unwrap_err().is_unavailable());
    let unknown = soon(broker.wait_until_idle(&[queue()], Duration::from_millis(200))).await;
    assert!(unknown.unwrap_err().is_unavailable());
    drop(stopped);
    let known = async || broker.wait_for_end(&queue(), &id("t1"), Duration::ZERO).await.ok();
    assert_eq!(eventually("Redis answers again", known).await, TaskEnd::NotYet(TaskState::Pending));
}

#[tokio::test]
async fn where_tracking_is_refused_tasks_are_polled() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let rules = ["SETUSER", "limited", "on", ">pw", "~*", "&*", "+@all", "-client|tracking"];
    let () = redis::cmd("ACL").arg(&rules).query_async(&mut redis).await.unwrap();
    let url = format!("{}?user=limited&pass=pw", server.url());
    let broker = Arc::new(RedisBroker::connect(&url, patient()).await.unwrap());
    put(&broker, &["t1"]).await;
    let waiter = wait(&broker, "t1", HOUR);
    let () = completed("t1").query_async(&mut redis).await.unwrap();
    assert!(matches!(soon(waiter).await.unwrap(), TaskEnd::Stored(_)));
    assert_eq!(tracked_keys(&mut redis).await, 0);
    let queues = [queue()];
    let emptied = async {
        let _: u64 = redis.del("asynq:{default}:pending").await.unwrap();
    };
    let (is_idle, ()) = soon(async { tokio::join!(broker.wait_until_idle(&queues, HOUR), emptied) }).await;
    assert!(is_idle.unwrap());
}

#[tokio::test]
async fn a_key_that_is_not_a_task_is_an_error_and_a_closed_broker_ends_a_wait() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let broker = Arc::new(server.broker().await);
    let key = |name: &str| format!("asynq:{{default}}:t:{name}");
    let () = redis.set(key("text"), "text").await.unwrap();
    let () = redis.hset(key("odd"), "state", "somewhere").await.unwrap();
    let () = redis.hset_multiple(key("bad"), &[("state", "archived"), ("msg", "\u{7}")]).await.unwrap();
    for name in ["text", "odd", "bad"] {
        let error = soon(broker.wait_for_end(&queue(), &id(name), HOUR)).await.unwrap_err();
        assert!(!error.is_unavailable(), "{name}: {error}");
    }
    // A hash without a state is not a task that could end.
    let () = redis.hset(key("empty"), "x", "x").await.unwrap();
    assert_eq!(soon(broker.wait_for_end(&queue(), &id("empty"), HOUR)).await.unwrap(), TaskEnd::Gone);

    put(&broker, &["t1"]).await;
    let (queues, task) = ([queue()], id("t1"));
    let closes = async {
        until_tracked(&mut redis, 2).await;
        broker.close().await;
    };
    let both = async {
        tokio::join!(broker.wait_for_end(&queues[0], &task, HOUR), broker.wait_until_idle(&queues, HOUR), closes)
    };
    let (ended, idle, ()) = soon(both).await;
    assert!(!ended.unwrap_err().is_unavailable() && !idle.unwrap_err().is_unavailable());
}
