use asynq_runtime::prelude::*;

#[job(unique = "1h", unique_by = "to, ")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
