//! Where Redis runs: what is special about TLS, users with few rights, sentinels, clusters and durability.
//!
//! What a broker does there is shown by the conformance suite, which runs whole on each.
#![allow(clippy::unwrap_used)] // a case that cannot be set up is a failed test

mod access;
mod cluster;
mod durability;
mod eviction;
mod sentinel;
mod tls;

use std::time::Duration;

use asynq_runtime::broker::{
    BrokerError, Run, Settlement,
    redis::{RedisBroker, RedisOptions},
};

use asynq_tests::{Seeded as _, done};

/// For a busy machine: no case but those about time-outs may run into one.
fn patient() -> RedisOptions {
    let mut options = RedisOptions::default();
    options.call_timeout = Duration::from_secs(5);
    options
}

async fn connect(url: &str) -> Result<RedisBroker, BrokerError> {
    RedisBroker::connect(url, patient()).await
}

/// Waits until the call works, looking again and again: a failover sends no signal.
async fn until_it_works<T>(what: &str, mut call: impl AsyncFnMut() -> Result<T, BrokerError>) -> T {
    let began = std::time::Instant::now();
    loop {
        match call().await {
            Ok(done) => return done,
            Err(error) => {
                assert!(error.is_unavailable(), "{what}: {error:?} is no reason to wait");
                assert!(began.elapsed() < Duration::from_secs(60), "{what}: in vain: {error:?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// The run's end as a success.
fn ended(run: &Run) -> Settlement {
    run.ends_with(done())
}
