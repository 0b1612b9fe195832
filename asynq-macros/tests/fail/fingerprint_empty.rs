use asynq_runtime::prelude::*;

#[job(fingerprint = "")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
