use asynq_runtime::prelude::*;

#[job(retry = "5")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

async fn caller(client: &Client) {
    let _ = send::enqueue(client, "ann").await;
    let _ = send { to: String::new() };
}

fn main() {}
