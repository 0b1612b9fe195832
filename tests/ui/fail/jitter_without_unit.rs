use asynq_cron::prelude::*;
use asynq_runtime::prelude::*;

#[periodic("@daily", jitter = 30)]
async fn cleanup() {}

fn main() {}
