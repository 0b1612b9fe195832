use asynq_runtime::prelude::*;

#[job(retry = 3000000000)]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
