use asynq_runtime::prelude::*;

#[job(timeout = "3min")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
