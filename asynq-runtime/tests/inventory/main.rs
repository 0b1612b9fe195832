//! Programs whose jobs are found by themselves: every `#[job]` of this binary is in the one inventory of it, so this is a
//! binary of its own.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used)] // an unexpected error is a failed test

mod aggregation;
mod test_app;
