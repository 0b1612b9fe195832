use asynq_runtime::prelude::*;

#[job(cron = "0 9 * * *")]
async fn cleanup() {}

fn main() {}
