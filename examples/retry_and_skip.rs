//! Failure: an error decides whether its task is retried, archived or dropped.

use asynq_runtime::{Outcome, prelude::*};

/// Fetches a page; the address decides how it goes.
#[job(queue = "fetch", retry = 3)]
async fn fetch(ctx: &JobContext, url: String) -> JobResult {
    let attempt = ctx.retried() + 1;
    println!("attempt {attempt} at {url}");
    match url.as_str() {
        // The task is tried again after the back-off, as often as `retry` says, then archived. `?` on any error does the same.
        "busy" if attempt == 1 => Err(JobError::fail("503")),
        // The task is tried again after the time that the error names.
        "throttled" if attempt == 1 => Err(JobError::retry_in("1s", "429, come back in a second")),
        // The task is archived at once: no retry can repair it.
        "missing" => Err(JobError::skip_retry("404")),
        // The task is dropped: its work is not needed any more.
        "withdrawn" => Err(JobError::revoke("the order was cancelled")),
        _ => Ok(()),
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let server = Server::builder(std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".to_owned()))
        .queue("fetch", 1)
        .build()
        .await?;
    let running = server.start().await?;
    let client = running.client();

    let mut tasks = Vec::new();
    for url in ["fine", "throttled", "missing", "withdrawn"] {
        tasks.push((url, fetch::job(url).awaited().enqueue(&client).await?));
    }
    for (url, task) in tasks {
        match task.wait("1m").await? {
            Outcome::Done(()) => println!("{url} is done"),
            Outcome::Archived(error) => println!("{url} is archived: {error}"),
            other => println!("{url}: {other:?}"),
        }
    }
    running.shutdown().await?;
    Ok(())
}
