use asynq_runtime::prelude::*;

#[job(max_crashes = 0)]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
