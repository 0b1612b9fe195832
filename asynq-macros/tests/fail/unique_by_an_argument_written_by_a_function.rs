use asynq_runtime::prelude::*;

#[job(unique = "1h", unique_by = "every, times")]
async fn fetch(
    from: String,
    #[serde(serialize_with = "serde::Serialize::serialize")] every: u64,
    #[serde(skip)] times: u8,
) {
    drop((from, every, times));
}

fn main() {}
