//! Choice of jobs: one program, deployed as several kinds of workers.
//!
//! ```text
//! choose_jobs --only 'mail:*'       # just these, from the queues that they name
//! choose_jobs --except render       # all but this
//! ASYNQ_ONLY=render choose_jobs     # the same from the environment
//! ```

use asynq_runtime::prelude::*;

#[job(name = "mail:welcome", queue = "mail")]
async fn welcome(to: String) -> JobResult {
    println!("welcome, {to}");
    Ok(())
}

#[job(name = "mail:bye", queue = "mail")]
async fn bye(to: String) -> JobResult {
    println!("bye, {to}");
    Ok(())
}

/// Needs a machine with much memory, so it has a queue and workers of its own.
#[job(queue = "render")]
async fn render(page: u32) -> JobResult {
    println!("rendered page {page}");
    Ok(())
}

asynq_runtime::main!();
