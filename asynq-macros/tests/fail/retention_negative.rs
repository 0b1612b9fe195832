use asynq_runtime::prelude::*;

#[job(retention = "-5m")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
