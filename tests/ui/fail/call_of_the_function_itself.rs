use asynq_runtime::prelude::*;

#[job]
async fn send_email(to: String) -> JobResult {
    Ok(drop(to))
}

async fn caller(client: &Client) {
    let _ = send_email("ann".into()).enqueue(client).await;
}

fn main() {}
