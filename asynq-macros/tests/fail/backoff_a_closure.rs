use asynq_runtime::prelude::*;

#[job(backoff = |n, _| n)]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
