use asynq_runtime::prelude::*;

#[job]
async fn send(#[serde(skip)] to: String) -> JobResult {
    let _ = to;
    Ok(())
}

fn main() {}
