use asynq_cron::prelude::*;

#[periodic("@daily", debounce = "30s")]
async fn cleanup() {}

fn main() {}
