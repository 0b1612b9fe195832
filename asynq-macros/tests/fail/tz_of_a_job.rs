use asynq_runtime::prelude::*;

#[job(tz = "Europe/Berlin")]
async fn cleanup() {}

fn main() {}
