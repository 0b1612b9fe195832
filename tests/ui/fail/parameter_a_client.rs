use asynq_runtime::prelude::*;

#[job]
async fn send(client: &Client, to: String) -> JobResult {
    Ok(drop((client, to)))
}

fn main() {}
