//! Health check: the broker is asked for a sign of life, and the program is told.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use asynq_runtime::prelude::*;

#[job(queue = "health")]
async fn work() {}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // What a probe of your orchestrator would read.
    let is_healthy = Arc::new(AtomicBool::new(false));
    let healthy = Arc::clone(&is_healthy);
    let server = Server::builder(std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".to_owned()))
        .queue("health", 1)
        // asynq asks every 15 s (`Server::HEALTH_CHECK`).
        .health_check("50ms", move |result| match result {
            Ok(()) => healthy.store(true, SeqCst),
            Err(error) => {
                healthy.store(false, SeqCst);
                eprintln!("the broker does not answer: {error}");
            }
        })
        .build()
        .await?;
    let running = server.start().await?;
    while !is_healthy.load(SeqCst) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("the broker answers");
    running.shutdown().await?;
    Ok(())
}
