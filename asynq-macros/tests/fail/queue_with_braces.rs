use asynq_runtime::prelude::*;

#[job(queue = "a{b}")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
