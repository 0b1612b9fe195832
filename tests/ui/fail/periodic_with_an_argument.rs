use asynq_cron::prelude::*;
use asynq_runtime::prelude::*;

#[periodic("@daily")]
async fn cleanup(days: u32) {}

fn main() {}
