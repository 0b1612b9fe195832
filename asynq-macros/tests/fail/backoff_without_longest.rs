use asynq_runtime::prelude::*;

#[job(backoff = "exponential(1s)")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
