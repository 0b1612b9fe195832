//! A queue that is deleted while producers take its name for written.

use std::sync::Arc;

use asynq_runtime::{
    Client, Registry,
    broker::{BulkAction, Inspect, Maintain, QueueDeleted, Repair},
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
