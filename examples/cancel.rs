//! Cancellation: a program that knows the id of a task can ask its worker to stop it.

use asynq_runtime::{Outcome, prelude::*};

/// An `async` job is dropped at its next await, with all values that it holds.
#[job(queue = "cancel", retry = 0)]
async fn endless() -> JobResult {
    println!("endless started");
    std::future::pending::<()>().await;
    Ok(())
}

/// A blocking job runs on a thread, which cannot be stopped from outside: the job itself has to check `is_cancelled`.
#[job(queue = "cancel", retry = 0)]
fn polite(ctx: &JobContext) -> JobResult {
    println!("polite started");
    let sum = (1_u64..).take_while(|_| !ctx.is_cancelled()).fold(0, u64::wrapping_add);
    println!("polite noticed at {sum}");
    Err(JobError::revoke("it is not needed any more"))
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
    let endless = endless::enqueue(&client).await?;
    let polite = polite::job().awaited().enqueue(&client).await?;

    // A cancellation has no effect before a worker runs the task, so ask again until the task has ended.
    let outcome = loop {
        client.inspector().cancel(&endless.id).await?;
        match endless.wait("20ms").await? {
            Outcome::StillRunning => {}
            outcome => break outcome,
        }
    };
    println!("endless: {outcome:?}");
    let outcome = loop {
        client.inspector().cancel(&polite.id).await?;
        match polite.wait("20ms").await? {
            Outcome::StillRunning => {}
            outcome => break outcome,
        }
    };
    println!("polite: {outcome:?}");
    running.shutdown().await?;
    Ok(())
}
