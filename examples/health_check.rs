//! Health check: the server asks the broker for a sign of life, and reports each answer to the program.

use asynq_runtime::prelude::*;
use tokio::sync::watch;

#[job(queue = "health")]
async fn work() {}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // A probe of your orchestrator would read this value.
    let (healthy, mut is_healthy) = watch::channel(false);
    let server = Server::builder(std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".to_owned()))
        .queue("health", 1)
        // asynq's interval is 15 s (`Server::HEALTH_CHECK`).
        .health_check("50ms", move |result| match result {
            Ok(()) => drop(healthy.send_replace(true)),
            Err(error) => {
                healthy.send_replace(false);
                eprintln!("the broker does not answer: {error}");
            }
        })
        .build()
        .await?;
    let running = server.start().await?;
    is_healthy.wait_for(|is_healthy| *is_healthy).await?;
    println!("the broker answers");
    running.shutdown().await?;
    Ok(())
}
