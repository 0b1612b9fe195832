use asynq_runtime::prelude::*;

mod send {}

#[job]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
