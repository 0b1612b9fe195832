use asynq_runtime::prelude::*;

#[job]
async fn send(to: [u8]) -> JobResult {
    Ok(drop(to.len()))
}

async fn caller(client: &Client) {
    let _ = send::enqueue(client, &[1]).await;
}

fn main() {}
