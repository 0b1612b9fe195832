use asynq_runtime::prelude::*;

#[job(unique = "1h", unique_until = "start", unique_extend = true)]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
