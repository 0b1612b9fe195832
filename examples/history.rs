//! History: the errors of a task's last ten attempts are kept beside it, and each day of a queue is counted.

use asynq_runtime::{Outcome, prelude::*};

/// Fails in a new way each time.
#[job(queue = "partner", retry = 2)]
async fn call(ctx: &JobContext) -> JobResult {
    let excuses = ["they do not answer", "they hung up", "the number has changed"];
    Err(JobError::retry_in("10ms", excuses[ctx.retried() as usize % excuses.len()]))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let server = Server::builder(std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".to_owned()))
        .queue("partner", 1)
        .build()
        .await?;
    let running = server.start().await?;
    let inspector = running.client().inspector();

    let task = call::enqueue(&running.client()).await?;
    if let Outcome::Archived(error) = task.wait("1m").await? {
        println!("given up: {error}");
    }
    for failure in inspector.failures("partner", &task.id).await? {
        println!("attempt {}: {}", failure.number, failure.error);
    }
    for day in inspector.history("partner", 2).await? {
        println!("{}: {} processed, {} failed", day.date, day.processed, day.failed);
    }
    running.shutdown().await?;
    Ok(())
}
