use asynq_runtime::prelude::*;

#[job(unique_until = "end")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
