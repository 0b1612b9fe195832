use asynq_runtime::prelude::*;

#[job(kill_after = "1m")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
