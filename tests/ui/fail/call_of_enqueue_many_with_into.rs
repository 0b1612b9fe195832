use asynq_runtime::prelude::*;

#[job]
async fn send(to: String, count: u32) -> JobResult {
    Ok(drop((to, count)))
}

#[job]
async fn count() {}

async fn caller(client: &Client) {
    let _ = client.enqueue_many([send::job("ann", 1).into(), count::job().into()]).await;
}

fn main() {}
