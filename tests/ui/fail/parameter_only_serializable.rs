use asynq_runtime::prelude::*;

#[derive(serde::Serialize)]
struct Address(String);

#[job]
async fn send(to: Address) -> JobResult {
    Ok(drop(to.0))
}

fn main() {}
