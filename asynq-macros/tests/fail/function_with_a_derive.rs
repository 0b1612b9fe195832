use asynq_runtime::prelude::*;

#[job]
#[derive(Debug)]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
