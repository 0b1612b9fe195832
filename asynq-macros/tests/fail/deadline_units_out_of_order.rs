use asynq_runtime::prelude::*;

#[job(deadline = "30m1h")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
