use asynq_runtime::prelude::*;

#[job(retry = 5, unique)]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
