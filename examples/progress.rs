//! Progress: a running job shows how far it is, and stores the result that it has so far.

use std::sync::Arc;

use asynq_runtime::prelude::*;
use tokio::sync::Notify;

/// Copies a book, page by page. The results on the way have the same type as the one that it returns in the end.
#[job(queue = "scriptorium", retention = "1h")]
async fn copy(ctx: &JobContext, seen: State<Arc<Notify>>, pages: u32) -> JobResult<u32> {
    for page in 1..=pages {
        ctx.progress(f64::from(page) / f64::from(pages), format!("page {page} of {pages}")).await?;
        // The dashboard and other tools show it. To go on from here after a failure, a job takes a `Checkpoint`.
        ctx.write_result(&page).await?;
        seen.notified().await;
    }
    Ok(pages)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let seen = Arc::new(Notify::new());
    let server = Server::builder(std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".to_owned()))
        .queue("scriptorium", 1)
        .state(seen.clone())
        .build()
        .await?;
    let running = server.start().await?;
    let client = running.client();

    let task = copy::enqueue(&client, 4_u32).await?;
    let mut shown = 0.0;
    // `wait` returns as soon as the task ends; a page of yours would look at the progress now and then.
    let outcome = loop {
        let now = client.inspector().task("scriptorium", &task.id).await?;
        if let Some(progress) = now.progress.filter(|progress| progress.fraction > shown && now.result.is_some()) {
            println!("{:3.0} %: {}", progress.fraction * 100.0, progress.note);
            shown = progress.fraction;
            seen.notify_one();
        }
        let outcome = task.wait("10ms").await?;
        if outcome.has_ended() {
            break outcome;
        }
    };
    println!("copied {} pages", outcome.done()?);
    running.shutdown().await?;
    Ok(())
}
