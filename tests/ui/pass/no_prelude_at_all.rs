//! `#[job]` needs nothing of the prelude.

#![no_implicit_prelude]
#![forbid(unsafe_code)]

use ::asynq_runtime::{JobContext, JobResult, State, job};

#[job(unique = "1h", unique_by = "to")]
async fn send(ctx: &JobContext, state: State<u8>, to: ::std::string::String, all: &[u8]) -> JobResult<u8> {
    let _ = (ctx, state, to);
    ::core::result::Result::Ok(all[0])
}

#[job(unique = "1h", unique_until = "start", backoff = "linear(1s)", expires = "1h", group = "all")]
async fn note(text: ::std::string::String) {
    let _ = text;
}

#[job(aggregates = note)]
fn digest(notes: ::std::vec::Vec<note>) {
    let _ = notes;
}

#[job]
fn block(file: &::std::path::Path) -> JobResult {
    ::std::fs::metadata(file)?;
    ::core::result::Result::Ok(())
}

fn main() {
    let _ = send::job("ann", &[1]);
    let _ = note::job("a");
    let _ = digest::job(::std::vec::Vec::new());
    let _ = block::job(::std::path::Path::new("a"));
}
