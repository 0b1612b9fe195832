use asynq_runtime::prelude::*;

#[job]
async fn send(to: String, count: u32) -> JobResult {
    Ok(drop((to, count)))
}

async fn caller(client: Client) {
    let _ = send::enqueue(client, "ann", 5).await;
}

fn main() {}
