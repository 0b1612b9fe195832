//! The runtime over its brokers: clients, servers, and what only one of the brokers does. What every broker must do is in
//! the conformance suite.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)] // an unexpected error is a failed test

mod child;
#[cfg(feature = "sqlite")]
mod client;
#[cfg(feature = "sqlite")]
mod client_layers;
mod measure;
#[cfg(feature = "sqlite")]
mod quiet_shutdown;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "sqlite")]
mod server;
#[cfg(feature = "sqlite")]
mod sqlite;
