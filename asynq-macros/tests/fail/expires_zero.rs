use asynq_runtime::prelude::*;

#[job(expires = "0s")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
