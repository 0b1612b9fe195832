use asynq_runtime::prelude::*;

#[job(unique = "999ms")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
