use asynq_runtime::prelude::*;

#[job]
async fn send(to: str) -> JobResult {
    Ok(drop(to.len()))
}

async fn caller(client: &Client) {
    let _ = send::enqueue(client, "ann").await;
}

fn main() {}
