use asynq_runtime::prelude::*;

#[job(crate = "asynq_runtime")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
