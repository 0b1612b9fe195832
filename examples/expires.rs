//! Expiry: a task that was not started in time is archived, not run. Yesterday's one-time code is of no use today.

use std::time::Duration;

use asynq_runtime::{Outcome, prelude::*};

/// `expires` counts from the enqueue to the start. `timeout` limits a whole attempt; `deadline` is the moment until which one may
/// run.
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
    // The builder takes a span or a moment, for one enqueue.
    let late = send_code::job("bob", 4712).expires("1ms").enqueue(&client).await?;
    // A task that would expire before it is due is a mistake.
    match send_code::job("eve", 4713).process_in("1h").enqueue(&client).await {
        Err(error) => println!("refused: {error}"),
        Ok(task) => println!("accepted as {}", task.id),
    }

    // The worker starts too late for one of the tasks.
    tokio::time::sleep(Duration::from_millis(5)).await;
    let running = Server::builder(url).build().await?.start().await?;
    running.drained().await?;
    if late.wait("1m").await? == Outcome::Expired {
        println!("bob's code was not sent");
    }
    running.shutdown().await?;
    Ok(())
}
