//! The suites that need several crates or whole processes, in one binary: linking it once takes as long as linking each.
//!
//! `cargo test -p asynq-tests --test it processes::` runs one of them. Suites with a binary of their own have a reason:
//! `conformance` is compiled once per broker, `runtime` is as long as this one and compiled beside it, `browser` needs a browser,
//! `observe` captures every log line of its process, and `inventory`, `macros` and `programs` test the jobs that the process links.

mod dashboard;
mod inspector;
mod interop;
mod processes;
mod topologies;
mod wire;

use asynq_tests::process;
