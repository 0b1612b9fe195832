//! A worker for the tests of whole processes: its jobs write down when they start and when they end.
//!
//! `ASYNQ_URL` names the broker, `JOURNAL`, `DIGESTS` and `HOLD` the files, `CONCURRENCY` the number of concurrent tasks. On a
//! SQLite file the leases last for an hour: a task that comes back sooner did not wait for the end of its lease. With
//! `SOAK` everything else has its default, and a task is scheduled every five seconds. The worker prints `ready` once it works,
//! obeys its signals, and ends with its standard input.

use std::{path::PathBuf, sync::Arc, time::Duration};

use asynq_cron::{CronSpec, Missed, Periodic};
use asynq_runtime::{broker::sqlite::SqliteBroker, prelude::*, server::Server};
use asynq_tests::{
    jobs::{Digest, Parcel, Poison, Record, Trial},
    journal::Journal,
    patient,
};

pub(crate) async fn run() -> Result<(), BoxError> {
    crate::end_with_parent();
    let journal = PathBuf::from(std::env::var("JOURNAL")?);
    let concurrency = std::env::var("CONCURRENCY")?.parse()?;
    let shutdown_timeout = std::env::var("SHUTDOWN_TIMEOUT").unwrap_or_else(|_| "8s".into());
    let url = std::env::var("ASYNQ_URL")?;
    let mut server = Server::builder(&url);
    if std::env::var_os("SOAK").is_some() {
        let tick = Periodic::new(CronSpec::parse("*/5 * * * * *")?, Trial { fails: 0, millis: 1 })?;
        server = server.service(asynq_cron::service().entry(tick.key("soak").missed(Missed::All(1_000))));
    } else if url.starts_with("sqlite:") {
        let mut options = patient::sqlite_options(None);
        options.lease = Duration::from_secs(3600);
        server = server.broker(Arc::new(SqliteBroker::open(&url, options).await?));
    }
    let server = server
        .registry(Registry::only::<(Record, Poison, Parcel, Trial)>()?)
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
