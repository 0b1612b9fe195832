//! A program that enqueues a job and leaves the run to another program, `contract_worker`.

use asynq_runtime::prelude::*;

/// Declares a job without a body: no code for pictures is linked here. Name, parameters and codec are those of the worker's job.
#[job(queue = "images")]
async fn resize(path: String, width: u32) -> JobResult<u64>;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let client = Client::from_env().await?;
    let task = resize::job("cat.png", 80).awaited().enqueue(&client).await?;
    println!("enqueued {} in {}", task.r#type, task.queue);
    println!("the worker wrote {} bytes", task.wait("30s").await?.done()?);
    Ok(())
}
