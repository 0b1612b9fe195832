use asynq_cron::prelude::*;

#[periodic(tz = "Europe/Berlin", "0 9 * * *")]
async fn cleanup() {}

fn main() {}
