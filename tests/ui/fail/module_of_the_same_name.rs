use asynq_runtime::prelude::*;

mod mail {}

#[job]
async fn mail(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
