use asynq_runtime::prelude::*;

#[job(unique = "1h", unique_by = "to, campain")]
async fn send(to: String, campaign: u64) -> JobResult {
    Ok(drop((to, campaign)))
}

fn main() {}
