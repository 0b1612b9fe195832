use asynq_cron::prelude::*;
use asynq_runtime::prelude::*;

#[periodic("0 0 30 2 *")]
async fn cleanup() {}

fn main() {}
