use asynq_cron::prelude::*;
use asynq_runtime::prelude::*;

#[periodic("0 9 * * 7")]
async fn cleanup() {}

fn main() {}
