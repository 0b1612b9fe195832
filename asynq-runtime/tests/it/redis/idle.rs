//! What a server costs Redis that has nothing to do.

use std::{sync::Arc, time::Instant};

use asynq_runtime::{Registry, prelude::*, server::Running};
use asynq_test_support::soon;

use super::{server::Server as Redis, tasks::commands};

#[job]
async fn nothing() -> JobResult {
    Ok(())
}

/// Waits for so many beats from now on; when one was told, none is on its way.
async fn beats(running: &Running, times: u64) {
    let beat = &running.signals().beat;
    soon(beat.reached(beat.count() + times)).await;
}

#[tokio::test]
async fn an_idle_server_costs_no_more_than_three_commands_a_second() {
    let redis = Redis::start(&[]).await;
    let broker = Arc::new(redis.broker().await);
    let server = Server::builder("").broker(broker).registry(Registry::only::<(nothing,)>().unwrap());
    let running = server.build().await.unwrap().start().await.unwrap();
    nothing::enqueue(&running.client()).await.unwrap();
    soon(running.signals().settled.reached(1)).await;
    soon(running.signals().cleaned.reached(1)).await;
    soon(running.signals().subscribed.reached(1)).await;
    beats(&running, 1).await;

    let mut foreign = redis.foreign().await;
    let (begun, before) = (Instant::now(), commands(&mut foreign).await);
    // Five seconds each.
    beats(&running, 3).await;
    let sent = commands(&mut foreign).await - before;
    assert!(sent >= 3, "the beats are counted");
    // A busy machine makes the time longer, and the timers of the server with it.
    let seconds = begun.elapsed().as_secs_f64();
    assert!(sent as f64 <= 3.0 * seconds, "{sent} commands in {seconds:.1} seconds");
    running.shutdown().await.unwrap();
}
