use asynq_runtime::prelude::*;

#[job(timeout = "500ms")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
