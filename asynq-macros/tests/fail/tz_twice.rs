use asynq_cron::prelude::*;

#[periodic("TZ=UTC 0 9 * * *", tz = "Europe/Berlin")]
async fn cleanup() {}

fn main() {}
