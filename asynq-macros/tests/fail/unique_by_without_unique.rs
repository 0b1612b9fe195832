use asynq_runtime::prelude::*;

#[job(unique_by = "to")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
