//! The suites that need several crates or whole processes, in one binary: linking it once takes as long as linking each.
//!
//! `cargo test -p asynq-tests --test it processes::` runs one of them. Suites with a binary of their own have a reason:
//! `conformance` is compiled once per broker, `browser` needs a browser, `observe` takes all that its process logs, and in `macros` and
//! `programs` the jobs that the process links are what is tested.

mod dashboard;
mod inspector;
mod interop;
mod processes;
mod topologies;
mod wire;
