//! The processes that tests start, in one program for the tests alone. The first argument selects one.
//!
//! Programs of `asynq_runtime::main!` are separate, because such a program has every job that it links.

mod interop;
mod produce;
mod scheduler;
mod servers;
mod worker;

use std::{io::Read as _, thread};

use asynq_runtime::BoxError;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("worker") => worker::run().await,
        Some("scheduler") => scheduler::run().await,
        Some("interop") => interop::run(arguments).await,
        Some("produce") => produce::run().await,
        Some("servers") => servers::run().await,
        Some("app") => servers::app().await,
        other => Err(format!("no such process: {other:?}").into()),
    }
}

/// Ends the process when its standard input ends: the pipe ends with the test program, however that ends.
fn end_with_parent() {
    thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
}
