use asynq_runtime::prelude::*;

#[job(queue = critical)]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
