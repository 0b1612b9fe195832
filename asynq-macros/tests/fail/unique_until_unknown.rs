use asynq_runtime::prelude::*;

#[job(unique = "1h", unique_until = "started")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
