//! `#[job]` and `#[periodic]` need no item of the prelude.

#![no_implicit_prelude]

use ::asynq_runtime::{JobContext, JobResult, State, job};

#[job(unique = "1h", unique_by = "to")]
async fn send(ctx: &JobContext, state: State<u8>, to: ::std::string::String, all: &[u8]) -> JobResult<u8> {
    ::core::mem::drop((ctx.id(), state, to));
    ::core::result::Result::Ok(all[0])
}

#[job(unique = "1h", unique_until = "start", backoff = "linear(1s)", expires = "1h", group = "all")]
async fn note(text: ::std::string::String) {
    ::core::mem::drop(text);
}

#[job(aggregates = note)]
fn digest(notes: ::std::vec::Vec<note>) {
    ::core::mem::drop(notes);
}

#[job]
fn block(file: &::std::path::Path) -> JobResult {
    let _file = ::std::fs::metadata(file)?;
    ::core::result::Result::Ok(())
}

#[::asynq_cron::periodic("@daily", name = "user:nightly")]
async fn nightly() {}

/// Makes tasks of the jobs.
pub fn run() {
    ::core::mem::drop(send::job("ann", &[1]));
    ::core::mem::drop(note::job("a"));
    ::core::mem::drop(digest::job(::std::vec::Vec::new()));
    ::core::mem::drop(block::job(::std::path::Path::new("a")));
    ::core::mem::drop(nightly::job());
}
