//! A program that enqueues and runs no jobs: a worker on the same broker does. `ASYNQ_URL` names the broker.

use asynq_jobs::prelude::*;

/// The worker's job: the same name and parameters, and no body.
#[job]
async fn greet(name: String) -> JobResult;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let client = Client::from_env().await?;
    let task = greet::enqueue(&client, "Ann").await?;
    println!("{} is {} in {}", task.id, task.state, task.queue);
    Ok(())
}
