//! Expiry: a task that was not started in time is archived, not run. Nobody wants yesterday's one-time code.

use std::time::Duration;

use asynq_runtime::{Outcome, prelude::*};

/// Counts from the enqueue. The time of a whole attempt is `timeout`; until when one may run is `deadline`.
#[job(expires = "10m")]
async fn send_code(to: String, code: u32) -> JobResult {
    println!("code {code} to {to}");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".to_owned());
    let client = Client::connect(&url).await?;

    send_code::enqueue(&client, "ann", 4711).await?;
    // A span or a moment, for one enqueue.
    let late = send_code::job("bob", 4712).expires("1ms").enqueue(&client).await?;
    // A task that would expire before it is due is a mistake.
    match send_code::job("eve", 4713).process_in("1h").enqueue(&client).await {
        Err(error) => println!("refused: {error}"),
        Ok(task) => println!("accepted as {}", task.id),
    }

    // The worker comes too late for one of them.
    tokio::time::sleep(Duration::from_millis(5)).await;
    let running = Server::builder(url).build().await?.start().await?;
    running.drained().await?;
    if late.wait("1m").await? == Outcome::Expired {
        println!("bob's code was not sent");
    }
    running.shutdown().await?;
    Ok(())
}
