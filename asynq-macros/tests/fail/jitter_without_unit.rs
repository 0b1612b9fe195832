use asynq_cron::prelude::*;

#[periodic("@daily", jitter = 30)]
async fn cleanup() {}

fn main() {}
