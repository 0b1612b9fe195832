use asynq_runtime::prelude::*;

#[job(retention = "1ms")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
