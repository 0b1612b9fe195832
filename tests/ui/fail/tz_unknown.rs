use asynq_cron::prelude::*;
use asynq_runtime::prelude::*;

#[periodic("0 9 * * *", tz = "Europe/Berln")]
async fn cleanup() {}

fn main() {}
