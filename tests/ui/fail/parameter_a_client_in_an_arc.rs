use asynq_runtime::prelude::*;
use std::sync::Arc;

#[job]
async fn send(client: Arc<Client>) -> JobResult {
    Ok(drop(client))
}

fn main() {}
