use asynq_runtime::prelude::*;

#[derive(serde::Deserialize)]
struct V1 {
    euros: u32,
}

fn from_v1(old: V1) -> u32 {
    old.euros * 100
}

#[job(upgrade = from_v1)]
async fn invoice(cents: u64) -> JobResult {
    Ok(drop(cents))
}

fn main() {}
