use asynq_runtime::prelude::*;

#[job]
async fn send<'a>(to: &'a str) -> JobResult {
    Ok(drop(to))
}

fn main() {}
