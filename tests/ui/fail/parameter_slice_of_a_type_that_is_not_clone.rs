use asynq_runtime::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
struct Address(String);

#[job]
async fn send(to: &[Address]) -> JobResult {
    let _ = to;
    Ok(())
}

fn main() {}
