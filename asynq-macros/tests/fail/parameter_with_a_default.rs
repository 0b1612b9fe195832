use asynq_runtime::prelude::*;

#[job]
async fn send(#[serde(default)] ids: Vec<u64>) -> JobResult {
    let _ = ids;
    Ok(())
}

fn main() {}
