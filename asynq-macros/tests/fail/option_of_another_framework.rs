use asynq_runtime::prelude::*;

#[job(max_retries = 5)]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
