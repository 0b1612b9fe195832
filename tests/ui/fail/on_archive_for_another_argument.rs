use asynq_runtime::prelude::*;

async fn refund(order: u64) {
    drop(order);
}

#[job(on_archive = refund)]
async fn charge(order: u64) -> JobResult {
    Ok(drop(order))
}

fn main() {}
