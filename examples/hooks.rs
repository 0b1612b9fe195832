//! Hooks: before the start, while the server drains, when an attempt failed, when a task is given up.

use asynq_runtime::prelude::*;

#[job(queue = "hooks", retry = 1)]
async fn charge(card: String) -> JobResult {
    match card.as_str() {
        "stolen" => Err(JobError::skip_retry("the card is stolen")),
        // This task is deferred and tried again, but no retry is spent and no failure counted; see `is_failure` below.
        "bank closed" => Err("the bank is closed")?,
        _ => Ok(()),
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let server = Server::builder(std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".to_owned()))
        .queue("hooks", 1)
        .before_start(|client: Client| async move {
            client.ping().await?; // An error here, and the server does not start.
            println!("about to start");
            JobResult::Ok(())
        })
        .on_error(|task| async move {
            println!("attempt {} of {} failed: {}", task.retried + 1, task.name, task.error);
        })
        .on_archive(|task| async move { println!("given up: {}", task.error) })
        .is_failure(|error| !error.to_string().contains("closed"))
        .on_drain(|_| async { println!("draining") })
        .build()
        .await?;
    let running = server.start().await?;
    let client = running.client();

    let stolen = charge::enqueue(&client, "stolen").await?;
    let later = charge::enqueue(&client, "bank closed").await?;
    // Both tasks have had their attempt; one of them waits for the bank.
    running.signals().settled.reached(2).await;
    for task in [stolen, later] {
        let task = client.inspector().task("hooks", &task.id).await?;
        println!("{} after {} failures", task.state, task.retried);
    }
    running.shutdown().await?;
    Ok(())
}
