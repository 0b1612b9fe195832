use asynq_runtime::prelude::*;

#[job(timeout = "1s500ms")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
