use asynq_runtime::prelude::*;

#[job(timeout = 30)]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
