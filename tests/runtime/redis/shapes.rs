//! The shapes of arguments in a Redis that has lost its data.

use std::sync::Arc;

use asynq_runtime::{Client, prelude::*};
use asynq_test_support::eventually;
use redis::AsyncCommands as _;

use super::server::Server as Redis;

#[job]
async fn greet(name: String) -> JobResult {
    let _ = name;
    Ok(())
}

async fn kept(redis: &Redis) -> usize {
    let kept: Vec<String> = redis.foreign().await.keys("asynq:x:shape:*:greet").await.unwrap();
    kept.len()
}

#[tokio::test]
async fn a_redis_that_comes_back_empty_gets_the_shape_with_an_enqueue_on_the_new_connection() {
    let mut redis = Redis::start(&[]);
    let client = Client::new(Arc::new(redis.broker().await));
    greet::enqueue(&client, "ann").await.unwrap();
    assert_eq!(kept(&redis).await, 1);
    redis.restart();
    assert_eq!(kept(&redis).await, 0);
    // The first enqueue may find that the connection is lost.
    eventually("the shape is kept again", async || {
        greet::enqueue(&client, "ben").await.unwrap();
        (kept(&redis).await == 1).then_some(())
    })
    .await;
}
