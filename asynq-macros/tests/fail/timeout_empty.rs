use asynq_runtime::prelude::*;

#[job(timeout = "")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
