use asynq_runtime::prelude::*;

#[job(name = "email\nsend")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
