//! Back-off: the job, a function or the server decides how long a failed task waits for its next attempt.

use std::time::{Duration, Instant};

use asynq_runtime::prelude::*;

/// Waits equally long before each retry; the pauses of `"linear(10s)"` and `"exponential(1s, 10m)"` grow.
#[job(retry = 2, backoff = "100ms")]
async fn poll(ctx: &JobContext, host: String) -> JobResult {
    println!("poll {host}: attempt {}", ctx.retried() + 1);
    Err(JobError::fail("no answer"))
}

#[derive(Debug, thiserror::Error)]
#[error("busy for {0:?}")]
struct Busy(Duration);

/// Returns a pause that depends on the error. No pause is longer than 10 days. If this function panics, the server's back-off
/// counts.
fn by_error(retried: u32, error: &JobError) -> Duration {
    match error.source().downcast_ref::<Busy>() {
        Some(Busy(time)) => *time,
        None => Duration::from_secs(60) * (retried + 1),
    }
}

#[job(retry = 1, backoff = by_error)]
async fn call(ctx: &JobContext, number: String) -> JobResult {
    println!("call {number}: attempt {}", ctx.retried() + 1);
    Err(Busy(Duration::from_millis(50)))?;
    Ok(())
}

#[job(retry = 1)]
async fn plain(ctx: &JobContext) -> JobResult {
    println!("plain: attempt {}", ctx.retried() + 1);
    Err(JobError::fail("no"))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".to_owned());
    let server = Server::builder(url)
        // Decides for jobs without a back-off. The default is asynq's: 15 s at first, growing with the fourth power of the
        // retries.
        .backoff(|_retried, _error, task| Duration::from_millis(task.r#type.len() as u64))
        .build()
        .await?;
    let running = server.start().await?;
    let client = running.client();

    let began = Instant::now();
    poll::enqueue(&client, "front").await?;
    call::enqueue(&client, "555-0100").await?;
    plain::enqueue(&client).await?;
    // `poll` makes 3 attempts, `call` and `plain` make 2 each.
    tokio::time::timeout(Duration::from_secs(60), running.signals().settled.reached(7)).await?;
    println!("all given up in time: {}", began.elapsed() >= Duration::from_millis(200));
    running.shutdown().await?;
    Ok(())
}
