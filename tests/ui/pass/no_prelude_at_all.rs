//! `#[job]` needs nothing of the prelude.

#![no_implicit_prelude]
#![forbid(unsafe_code)]

use ::asynq_runtime::{JobContext, JobResult, State, job};

#[job(unique = "1h", unique_by = "to")]
async fn send(ctx: &JobContext, state: State<u8>, to: ::std::string::String, all: &[u8]) -> JobResult<u8> {
    let _ = (ctx, state, to);
    ::core::result::Result::Ok(all[0])
}

#[job]
fn block(file: &::std::path::Path) -> JobResult {
    ::std::fs::metadata(file)?;
    ::core::result::Result::Ok(())
}

fn main() {
    let _ = send::job("ann", &[1]);
    let _ = block::job(::std::path::Path::new("a"));
}
