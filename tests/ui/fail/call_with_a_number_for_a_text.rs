use asynq_runtime::prelude::*;

#[job]
async fn send(to: String, count: u32) -> JobResult {
    Ok(drop((to, count)))
}

async fn caller(client: &Client, user: u64) {
    let _ = send::enqueue(client, user, 5).await;
}

fn main() {}
