//! Limits per queue: a slow partner gets two calls at a time from each worker, everything else has the other slots. The example
//! `semaphore` has a limit over all workers.

use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

use asynq_runtime::prelude::*;

/// The number of calls at a time, and the highest so far.
#[derive(Default)]
struct Calls(AtomicUsize, AtomicUsize);

#[job(queue = "partner")]
async fn call_partner(calls: State<Calls>) -> JobResult {
    calls.1.fetch_max(calls.0.fetch_add(1, SeqCst) + 1, SeqCst);
    tokio::time::sleep(Duration::from_millis(10)).await;
    calls.0.fetch_sub(1, SeqCst);
    Ok(())
}

#[job(queue = "fast")]
async fn quick() {}

#[job(queue = "fast")]
async fn report(calls: State<Calls>) -> JobResult {
    println!("never more than {} calls at a time", calls.1.load(SeqCst));
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let server = Server::builder(std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".to_owned()))
        .state(Calls::default())
        // On the command line: --queues partner=1/2,fast=1
        .queue("partner", 1)
        .queue_concurrency("partner", 2)
        .queue("fast", 1)
        .concurrency(20)
        .build()
        .await?;
    let running = server.start().await?;
    let client = running.client();
    for outcome in client.enqueue_many((0..20).map(|_| call_partner::job())).await? {
        outcome?;
    }
    for outcome in client.enqueue_many((0..20).map(|_| quick::job())).await? {
        outcome?;
    }
    running.drained().await?;
    println!("nothing is left");
    report::enqueue(&client).await?;
    running.drained().await?;
    running.shutdown().await?;
    Ok(())
}
