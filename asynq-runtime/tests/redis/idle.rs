//! What a server costs Redis that has nothing to do.

use asynq_runtime::{Registry, prelude::*, server::Running};
use redis::aio::MultiplexedConnection;

use crate::server::Server as Redis;

#[job]
async fn nothing() -> JobResult {
    Ok(())
}

/// Every command since the last reset, those that scripts call included; not what the test itself sends.
async fn commands(redis: &mut MultiplexedConnection) -> u64 {
    let stats: String = redis::cmd("INFO").arg("commandstats").query_async(redis).await.unwrap();
    let lines = stats.lines().filter(|line| line.starts_with("cmdstat_"));
    let foreign = |line: &&str| line.starts_with("cmdstat_info:") || line.starts_with("cmdstat_config|resetstat:");
    let calls = |line: &str| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok();
    lines.filter(|line| !foreign(line)).filter_map(calls).sum()
}

/// Waits for so many beats from now on; when one was told, none is on its way.
async fn beats(running: &Running, times: u64) {
    let beat = &running.signals().beat;
    beat.reached(beat.count() + times).await;
}

#[tokio::test]
async fn an_idle_server_costs_no_more_than_three_commands_a_second() {
    let redis = Redis::start(&[]).await;
    let server = Server::builder(redis.url()).registry(Registry::only::<(nothing,)>().unwrap());
    let running = server.build().await.unwrap().start().await.unwrap();
    nothing::enqueue(&running.client()).await.unwrap();
    running.signals().settled.reached(1).await;
    running.signals().cleaned.reached(1).await;
    running.signals().subscribed.reached(1).await;
    beats(&running, 1).await;

    let mut foreign = redis.foreign().await;
    let before = commands(&mut foreign).await;
    // Five seconds each.
    beats(&running, 3).await;
    let sent = commands(&mut foreign).await - before;
    assert!(sent >= 3, "the beats are counted");
    assert!(sent <= 45, "{sent} commands in 15 seconds");
    running.shutdown().await.unwrap();
}
