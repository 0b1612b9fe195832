use asynq_runtime::prelude::*;

#[job(codec = "jsn")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
