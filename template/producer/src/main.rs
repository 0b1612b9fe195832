//! A program that enqueues and runs no jobs: a worker on the same broker does. `ASYNQ_URL` names the broker.

use asynq_jobs::prelude::*;

/// The worker's job: the same name, parameters and options, and no body. Options such as `retry` travel with the task, so these count.
#[job(retry = 5, timeout = "1m")]
async fn greet(name: String) -> JobResult;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let client = Client::from_env().await?;
    let task = greet::enqueue(&client, "Ann").await?;
    println!("{} is {} in {}", task.id, task.state, task.queue);
    Ok(())
}
