use asynq_runtime::prelude::*;

#[job(expires = 10)]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
