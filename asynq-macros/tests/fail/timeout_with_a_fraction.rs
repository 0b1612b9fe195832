use asynq_runtime::prelude::*;

#[job(timeout = "1.5h")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
