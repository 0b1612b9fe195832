use asynq_runtime::prelude::*;

#[job]
async fn send(to: &str) -> JobResult<&str> {
    Ok(to)
}

fn main() {}
