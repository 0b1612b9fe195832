//! A program that enqueues a job and leaves it to another one: `contract_worker` is that one.

use asynq_runtime::prelude::*;

/// No body: nothing that makes pictures is linked here. Name, parameters and codec are those of the job that has one.
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
