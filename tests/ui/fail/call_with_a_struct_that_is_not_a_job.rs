use asynq_runtime::prelude::*;

struct Mail {
    to: String,
}

async fn caller(client: &Client) {
    let _ = client.enqueue(Mail { to: "ann".into() }).await;
}

fn main() {}
