use asynq_runtime::prelude::*;

#[job(colour = "red")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
