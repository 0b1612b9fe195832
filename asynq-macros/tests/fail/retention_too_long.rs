use asynq_runtime::prelude::*;

#[job(retention = "300000d")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
