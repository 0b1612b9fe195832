use asynq_runtime::prelude::*;

#[job(unique_extend = true)]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
