use asynq_runtime::prelude::*;

#[job(backoff = "linear(11d)")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
