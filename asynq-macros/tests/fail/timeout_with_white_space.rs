use asynq_runtime::prelude::*;

#[job(timeout = "1h 30m")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
