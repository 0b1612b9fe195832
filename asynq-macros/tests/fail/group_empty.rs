use asynq_runtime::prelude::*;

#[job(group = "")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
