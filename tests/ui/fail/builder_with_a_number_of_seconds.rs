use asynq_runtime::prelude::*;

#[job]
async fn send(to: String, count: u32) -> JobResult {
    Ok(drop((to, count)))
}

async fn caller(client: &Client) {
    let _ = send::job("ann", 5).timeout(90).enqueue(client).await;
}

fn main() {}
