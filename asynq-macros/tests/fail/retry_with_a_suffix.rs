use asynq_runtime::prelude::*;

#[job(retry = 5u8)]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
