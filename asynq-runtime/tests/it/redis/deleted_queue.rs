//! A queue that is deleted while producers take its name for written.

use std::sync::Arc;

use asynq_runtime::{
    Client, Registry,
    broker::{Inspect, Maintain, QueueDeleted, Repair},
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
    let redis = Redis::start(&[]).await;
    let server = Server::builder("").broker(Arc::new(redis.broker().await)).queue("tenant:*", 1);
    let server = server.registry(Registry::only::<(nothing,)>().unwrap());
    let running = server.build().await.unwrap().start().await.unwrap();
    // The janitor of the server does not search again within this test.
    soon(running.signals().cleaned.reached(1)).await;
    let producer = Client::new(Arc::new(redis.broker().await));
    let (deleter, queue) = (redis.broker().await, QueueName::new("tenant:a").unwrap());
    nothing::enqueue(&producer).await.unwrap();
    soon(running.signals().settled.reached(1)).await;
    assert_eq!(deleter.delete_queue(&queue).await.unwrap(), QueueDeleted::Done);

    nothing::enqueue(&producer).await.unwrap();
    assert!(deleter.queues().await.unwrap().is_empty(), "the producer takes the name for written");
    // The server serves no queue, so its janitor passes none.
    deleter.restore_groups(&[]).await.unwrap();
    assert_eq!(deleter.queues().await.unwrap(), [queue]);
    soon(running.signals().settled.reached(2)).await;
    running.shutdown().await.unwrap();
}
