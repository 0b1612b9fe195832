use asynq_runtime::prelude::*;

#[job]
async fn send<T: Send>(to: T) -> JobResult
where
    T: Clone,
{
    Ok(drop(to))
}

async fn caller(client: &Client) {
    let _ = send::enqueue(client, 5).await;
}

fn main() {}
