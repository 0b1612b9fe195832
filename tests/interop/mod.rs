//! Go's asynq and ours on the same queues, live: every ordered pair of producer and worker, step by step.
//!
//! The Go programs are in this folder: `peer` uses module `github.com/hibiken/asynq` as its users do, `asynqmon` is the
//! handler of the released web interface. Without Go each test is skipped, which is a failure where `CI` is set. Each step
//! writes its row to `target/interop`; `scripts/test` prints the matrix.
#![allow(clippy::unwrap_used)]

mod fleet;
mod go;
mod matrix;
mod side;
mod stage;
mod steps;
mod tools;
mod trace;
mod worker;
