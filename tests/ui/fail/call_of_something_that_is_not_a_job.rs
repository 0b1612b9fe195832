use asynq_runtime::prelude::*;

async fn caller(client: &Client) {
    let _ = client.enqueue("ann").await;
}

fn main() {}
