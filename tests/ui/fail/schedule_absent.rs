use asynq_cron::prelude::*;
use asynq_runtime::prelude::*;

#[periodic]
async fn cleanup() {}

fn main() {}
