//! Go's asynq and ours on the same queues, live: every ordered pair of producer and worker, step by step.
//!
//! The Go programs are in this folder: `peer` uses module `github.com/hibiken/asynq` as its users do, `asynqmon` is the
//! handler of the released web interface. Without Go the tests print a line that starts with `gap:` and pass, unless `CI`
//! is set: then a missing Go is a failure. Each step writes its row to `target/interop`; `scripts/test` prints the matrix.
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
