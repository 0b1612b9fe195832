use asynq_runtime::prelude::*;

#[job(timeout = "3 parsecs")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
