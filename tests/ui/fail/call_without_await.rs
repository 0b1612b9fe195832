use asynq_runtime::prelude::*;

#[job]
async fn send(to: String, count: u32) -> JobResult {
    Ok(drop((to, count)))
}

async fn caller(client: &Client) -> Result<(), EnqueueError> {
    send::enqueue(client, "ann", 5)?;
    Ok(())
}

fn main() {}
