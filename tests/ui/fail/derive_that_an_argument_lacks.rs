use asynq_runtime::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
struct Address {
    street: String,
}

#[job(derive(Debug))]
async fn send(to: Address) -> JobResult {
    Ok(drop(to))
}

fn main() {}
