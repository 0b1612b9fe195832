//! A queue that is deleted while producers take its name for written.

use std::sync::Arc;

use asynq_runtime::{
    Client, Registry,
    broker::{BulkAction, Diagnose, Inspect, Maintain, QueueDeleted, Repair},
    prelude::*,
    task::QueueName,
};
use asynq_test_support::soon;

use super::server::Server as Redis;

#[job(queue = "tenant:a")]
async fn nothing() -> JobResult {
    Ok(())
}

#[tokio::test]
async fn a_queue_that_gets_tasks_after_it_was_deleted_is_named_again() {
    let redis = Redis::start(&[]);
    let producer = Client::new(Arc::new(redis.broker().await));
    let (deleter, queue) = (redis.broker().await, QueueName::new("tenant:a").unwrap());
    let task = nothing::enqueue(&producer).await.unwrap();
    deleter.change_task(&queue, &task.id, None, BulkAction::Delete).await.unwrap();
    assert_eq!(deleter.delete_queue(&queue).await.unwrap(), QueueDeleted::Done);

    nothing::enqueue(&producer).await.unwrap();
    assert!(deleter.queues().await.unwrap().is_empty(), "the producer takes the name for written");
    // The janitor of a server of patterns that serves no queue passes none.
    deleter.restore_groups(&[]).await.unwrap();
    assert_eq!(deleter.queues().await.unwrap(), [queue]);

    let server = Server::builder("").broker(Arc::new(redis.broker().await)).queue("tenant:*", 1);
    let server = server.registry(Registry::only::<(nothing,)>().unwrap());
    let running = server.build().await.unwrap().start().await.unwrap();
    soon(running.signals().settled.reached(1)).await;
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_key_of_another_program_is_not_taken_for_a_queue_and_a_group_is_a_part_of_one() {
    let redis = Redis::start(&[]);
    let (broker, mut foreign) = (redis.broker().await, redis.foreign().await);
    let mut keys = ::redis::pipe();
    keys.set("asynq:{cache}:retry", "x").zadd("asynq:{grouped}:g:mails", "t1", 1);
    keys.exec_async(&mut foreign).await.unwrap();
    broker.restore_groups(&[]).await.unwrap();
    assert_eq!(broker.queues().await.unwrap(), [QueueName::new("grouped").unwrap()]);
}

/// Go's `queue rm` looks neither at groups nor at completed tasks, and where no server of ours runs nothing names the queue again.
#[tokio::test]
async fn an_unlisted_queue_is_found_beside_the_listed_ones_and_listed_again_when_it_is_resumed() {
    let redis = Redis::start(&[]);
    let (broker, mut foreign) = (redis.broker().await, redis.foreign().await);
    let queue = |name| QueueName::new(name).unwrap();
    let mut keys = ::redis::pipe();
    keys.hset("asynq:{kept}:t:a}b", "state", "completed").zadd("asynq:{kept}:completed", "a}b", 1);
    keys.set("asynq:{locked}:unique:email:k", "gone").hset("asynq:{listed}:t:a", "state", "pending");
    keys.sadd("asynq:queues", "listed");
    keys.exec_async(&mut foreign).await.unwrap();
    let cases = [(vec![], ["kept", "listed", "locked"]), (vec![queue("listed")], ["listed", "kept", "locked"])];
    for (listed, expected) in cases {
        let found = broker.keys_of_all(&listed, 1_000_000).await;
        let names: Vec<&str> = found.iter().map(|(queue, _)| queue.as_str()).collect();
        assert_eq!(names, expected, "the listed ones come first");
        assert!(found.iter().all(|(_, keys)| keys.as_ref().is_ok_and(|keys| keys.names.len() == 1)), "{found:?}");
    }
    for name in ["kept", "locked"] {
        assert!(!broker.resume(&queue(name)).await.unwrap(), "it was not paused");
    }
    assert_eq!(broker.queues().await.unwrap(), [queue("kept"), queue("listed")], "one without a task is not a queue");
}
