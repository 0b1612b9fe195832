use asynq_runtime::prelude::*;

fn gentle(retried: u32) -> std::time::Duration {
    std::time::Duration::from_secs(u64::from(retried))
}

#[job(backoff = gentle)]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
