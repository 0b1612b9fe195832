use asynq_runtime::prelude::*;

#[job(unique = "1h", unique_until = "start")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
