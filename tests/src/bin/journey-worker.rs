//! A worker for the journey tests: its jobs write down when they start and when they end.
//!
//! `ASYNQ_URL` names the broker, `JOURNAL` and `DIGESTS` the files, `CONCURRENCY` how many tasks run at a time. It prints `ready` once
//! it works, and ends as its signals say.

use std::path::PathBuf;

use asynq_runtime::{prelude::*, server::Server};
use asynq_tests::{
    jobs::{Digest, Poison, Record},
    journal::Journal,
};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let journal = PathBuf::from(std::env::var("JOURNAL")?);
    let concurrency = std::env::var("CONCURRENCY")?.parse()?;
    let shutdown_timeout = std::env::var("SHUTDOWN_TIMEOUT").unwrap_or_else(|_| "8s".into());
    let server = Server::builder(std::env::var("ASYNQ_URL")?)
        .registry(Registry::only::<(Record, Poison)>()?)
        .register_aggregate::<Digest>()
        .group_grace("1s")
        .group_max_size(5)
        .concurrency(concurrency)
        .shutdown_timeout(shutdown_timeout.as_str())
        .state(Journal::open(&journal)?)
        .build()
        .await?;
    println!("ready");
    server.run().await?;
    Ok(())
}
