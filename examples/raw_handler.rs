//! Raw handlers: tasks of other languages, found by name as Go's mux does, without a Rust type.

use asynq_runtime::prelude::*;

/// A typed job answers to exactly its name, before any handler.
#[job(name = "image:resize", codec = "json", queue = "images", retention = "1h")]
async fn resize(width: u32) -> JobResult {
    println!("typed: {width} pixels");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let server = Server::builder(std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".to_owned()))
        .queue("images", 1)
        .concurrency(1)
        // An exact name wins, and then the longest prefix.
        .handle("image:", |task: RawTask| async move {
            println!("any image: {} with {}", task.name(), String::from_utf8_lossy(task.payload()));
            JobResult::Ok(())
        })
        .handle("image:crop", |task: RawTask| async move {
            println!("crop, trace {}", task.header_value("trace").unwrap_or("none"));
            // Go's ResultWriter writes such a result, and Go's inspector reads it.
            task.context().write_result_raw("cropped").await?;
            JobResult::Ok(())
        })
        .build()
        .await?;
    let client = Client::new(server.broker().clone());

    // A Go program would enqueue the same tasks.
    let task = |name: &str, payload: &'static str| RawTask::new(name, payload).queue("images").retention("1h");
    let mut last = client.enqueue(task("image:resize", "80")).await?;
    for (name, payload) in [("image:blur", r#"{"by":3}"#), ("image:crop", "{}")] {
        last = client.enqueue(task(name, payload).header("trace", "abc")).await?;
    }

    let running = server.start().await?;
    let result = client.wait_raw(&last, "1m").await?.done()?;
    println!("the result is {}", String::from_utf8_lossy(&result));
    running.shutdown().await?;
    Ok(())
}
