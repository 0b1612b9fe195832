//! The runtime over its brokers: clients, servers, and the peculiarities of each broker. The cases that every broker must
//! pass are in the conformance suite.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)] // an unexpected error is a failed test

mod child;
mod client;
mod client_layers;
mod quiet_shutdown;
mod redis;
mod server;
mod sqlite;
mod timing;

/// The answers of a call that asked for several, none of them an error.
fn answered<T>(answers: Vec<Result<T, asynq_runtime::broker::BrokerError>>) -> Vec<T> {
    answers.into_iter().map(Result::unwrap).collect()
}
