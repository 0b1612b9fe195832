use asynq_cron::prelude::*;

#[periodic]
async fn cleanup() {}

fn main() {}
