use asynq_cron::prelude::*;
use asynq_runtime::prelude::*;

#[periodic("@daily", timezone = "UTC")]
async fn cleanup() {}

fn main() {}
