use asynq_runtime::prelude::*;

#[job(name = " ")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
