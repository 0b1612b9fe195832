use asynq_cron::prelude::*;
use asynq_runtime::prelude::*;

#[periodic("@daily", missed = "never")]
async fn cleanup() {}

fn main() {}
