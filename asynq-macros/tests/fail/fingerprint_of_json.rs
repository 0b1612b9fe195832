use asynq_runtime::prelude::*;

#[job(codec = "json", fingerprint = "v2")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
