//! The worker of `contract`: it has the body of the job, and links the code that the body needs.

use asynq_runtime::prelude::*;

#[job(queue = "images")]
async fn resize(path: String, width: u32) -> JobResult<u64> {
    println!("{path} is now {width} pixels wide");
    Ok(u64::from(width) * 60)
}

asynq_runtime::main!();
