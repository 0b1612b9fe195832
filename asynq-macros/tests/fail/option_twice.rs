use asynq_runtime::prelude::*;

#[job(retry = 1, queue = "low", retry = 2)]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
