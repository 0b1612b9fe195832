use asynq_runtime::prelude::*;

#[job(retry(5))]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
