//! The shapes of arguments in a Redis that has lost its data, or refuses to tell them.

use std::sync::Arc;

use asynq_runtime::{Client, prelude::*};
use asynq_test_support::{Log, eventually, soon};
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

#[tokio::test]
async fn a_task_whose_shape_redis_refuses_to_tell_is_warned_of_once() {
    let (log, redis) = (Log::keep(), Redis::start(&[]));
    let () = redis.foreign().await.lpush("asynq:x:shape:00000000:greet", "of a foreign program").await.unwrap();
    let client = Client::new(Arc::new(redis.broker().await));
    for _ in 0..2 {
        client.enqueue(RawTask::new("greet", &b"\x01\0\0\0\0\x05"[..])).await.unwrap();
    }
    let server = Server::builder("").broker(Arc::new(redis.broker().await));
    let server = server.registry(Registry::only::<(greet,)>().unwrap()).build().await.unwrap();
    let running = server.start().await.unwrap();
    soon(running.signals().settled.reached(2)).await;
    let warned = log.with("logged once per type");
    assert!(warned.len() == 1 && warned[0].contains("the other shape cannot be read: "), "{warned:?}");
    soon(running.shutdown()).await.unwrap();
}
