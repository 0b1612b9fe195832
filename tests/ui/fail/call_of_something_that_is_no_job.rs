use asynq_runtime::prelude::*;

async fn caller(client: &Client) {
    let _ = client.enqueue("ann").await;
    let _ = Registry::only::<(String,)>();
}

fn main() {}
