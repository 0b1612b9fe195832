use asynq_runtime::prelude::*;

#[job(deadline = "1h2h")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
