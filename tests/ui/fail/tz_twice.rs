use asynq_cron::prelude::*;
use asynq_runtime::prelude::*;

#[periodic("TZ=UTC 0 9 * * *", tz = "Europe/Berlin")]
async fn cleanup() {}

fn main() {}
