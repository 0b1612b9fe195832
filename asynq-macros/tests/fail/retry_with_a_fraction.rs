use asynq_runtime::prelude::*;

#[job(retry = 1.5)]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
