//! Cancel from elsewhere: whoever knows a task's id can ask its worker to stop it.

use std::time::Duration;

use asynq_runtime::prelude::*;

/// An `async` job is dropped at its next await; what it holds is dropped with it.
#[job(queue = "cancel", retry = 0)]
async fn endless() -> JobResult {
    println!("endless started");
    std::future::pending::<()>().await;
    Ok(())
}

/// A blocking job runs on a thread, which nobody can stop: it has to look.
#[job(queue = "cancel", retry = 0)]
fn polite(ctx: &JobContext) -> JobResult {
    println!("polite started");
    while !ctx.is_cancelled() {
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("polite noticed");
    Err(JobError::revoke("nobody wants it any more"))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let server = Server::builder(std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".to_owned()))
        .queue("cancel", 1)
        .concurrency(2)
        .build()
        .await?;
    let running = server.start().await?;
    let client = running.client();
    let tasks = [("endless", endless::enqueue(&client).await?), ("polite", polite::enqueue(&client).await?)];

    for (name, task) in tasks {
        let end = loop {
            match client.broker().task(&task.queue, &task.id).await? {
                // Nobody is told where no worker listens yet, so ask again until it is heard.
                Some(found) if found.state == TaskState::Active => client.broker().cancel(&task.id).await?,
                Some(found) if found.state == TaskState::Archived => break found.last_error.unwrap_or_default(),
                None => break "gone".to_owned(),
                Some(_) => {}
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        println!("{name}: {end}");
    }
    running.shutdown().await?;
    Ok(())
}
