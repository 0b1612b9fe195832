use asynq_runtime::prelude::*;

#[job(retry = 2 + 3)]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
