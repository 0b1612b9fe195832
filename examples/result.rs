//! Results: the return value of a job is kept with its task for as long as the task's retention says.

use asynq_runtime::{Outcome, prelude::*};
use serde::{Deserialize, Serialize};

/// A struct as the only argument is the payload itself; with JSON, a Go program can enqueue and read it.
#[derive(Serialize, Deserialize)]
struct Resize {
    path: String,
    width: u32,
}

/// "Resizes" a picture and returns how many bytes came out.
#[job(name = "image:resize", codec = "json", queue = "pictures", retention = "1h")]
async fn resize(args: Resize) -> JobResult<u64> {
    println!("resizing {}", args.path);
    Ok(u64::from(args.width) * 3)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let server = Server::builder(std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".to_owned()))
        .queue("pictures", 1)
        .build()
        .await?;
    let running = server.start().await?;
    let client = running.client();

    let task = resize::enqueue(&client, Resize { path: "cat.png".to_owned(), width: 80 }).await?;
    // The broker notifies the client, whichever program runs the task. Without `retention`, `resize::job(..).awaited()` keeps the
    // result.
    match task.wait("1m").await? {
        Outcome::Done(size) => println!("the result is {size}"),
        Outcome::StillRunning => println!("task {} takes longer", task.id),
        other => println!("there is no result: {other:?}"),
    }
    // The id, which a web page could have been given, leads to the same result.
    println!("and once more: {}", client.result::<resize>(&task.id).await?);

    running.shutdown().await?;
    Ok(())
}
