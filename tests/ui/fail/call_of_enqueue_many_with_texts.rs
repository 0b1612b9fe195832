use asynq_runtime::prelude::*;

async fn caller(client: &Client) {
    let _ = client.enqueue_many(["ann", "bob"]).await;
}

fn main() {}
