//! The runtime over its brokers: clients, servers, and the peculiarities of each broker. The cases that every broker must
//! pass are in the conformance suite.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)] // an unexpected error is a failed test

#[cfg(feature = "sqlite")]
mod child;
#[cfg(feature = "sqlite")]
mod client;
#[cfg(feature = "sqlite")]
mod client_layers;
#[cfg(feature = "sqlite")]
mod quiet_shutdown;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "sqlite")]
mod server;
#[cfg(feature = "sqlite")]
mod sqlite;
mod timing;

/// The answers of a call that asked for several, none of them an error.
#[cfg(any(feature = "redis", feature = "sqlite"))]
fn answered<T>(answers: Vec<Result<T, asynq_runtime::broker::BrokerError>>) -> Vec<T> {
    answers.into_iter().map(Result::unwrap).collect()
}
