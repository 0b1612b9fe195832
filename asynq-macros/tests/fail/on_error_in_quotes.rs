use asynq_runtime::prelude::*;

#[job(on_error = "policy")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
