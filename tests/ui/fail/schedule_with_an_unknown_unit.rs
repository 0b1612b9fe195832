use asynq_cron::prelude::*;
use asynq_runtime::prelude::*;

#[periodic("@every 1d")]
async fn cleanup() {}

fn main() {}
