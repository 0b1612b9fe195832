//! A semaphore: at most two calls to a partner at a time, however many workers there are, on however many machines.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use asynq_runtime::{prelude::*, rate::Semaphore};

/// The number of calls under way, and the highest so far.
#[derive(Default)]
struct Calls {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// Places an order with a token. Without one, or while the broker cannot be asked, the task is deferred, which spends no retry.
#[job(timeout = "1m")]
async fn call_partner(ctx: &JobContext, partner: State<Semaphore>, calls: State<Calls>, order: u32) -> JobResult {
    let Some(token) = partner.try_acquire(ctx).await.map_err(JobError::not_a_failure)? else {
        return Err(JobError::snooze("50ms"));
    };
    calls.most.fetch_max(calls.now.fetch_add(1, SeqCst) + 1, SeqCst);
    tokio::time::sleep(Duration::from_millis(100)).await;
    calls.now.fetch_sub(1, SeqCst);
    println!("order {order} is placed; at most {} at a time so far", calls.most.load(SeqCst));
    // It goes back in the background, as after an error; a worker that dies holds it until the attempt's deadline.
    drop(token);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".to_owned());
    let client = Client::connect(&url).await?;
    let server = Server::builder(&url)
        .concurrency(10)
        .state(Semaphore::new("partner", 2)?)
        .state(Calls::default())
        .build()
        .await?;
    let running = server.start().await?;
    for order in 1..=6 {
        call_partner::enqueue(&client, order).await?;
    }
    running.drained().await?;
    running.shutdown().await?;
    if let Err(error) = Semaphore::new("partner", 0) {
        println!("refused: {error}");
    }
    Ok(())
}
