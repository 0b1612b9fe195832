use asynq_runtime::prelude::*;

#[job(retry = 5)]
#[job(queue = "low")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
