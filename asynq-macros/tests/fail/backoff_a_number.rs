use asynq_runtime::prelude::*;

#[job(backoff = 30)]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
