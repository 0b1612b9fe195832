use asynq_runtime::prelude::*;

#[job(on_error = |_| Policy::Fail)]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
