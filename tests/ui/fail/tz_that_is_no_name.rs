use asynq_cron::prelude::*;
use asynq_runtime::prelude::*;

#[periodic("0 9 * * *", tz = "../etc/passwd")]
async fn cleanup() {}

fn main() {}
