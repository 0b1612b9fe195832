use asynq_cron::prelude::*;

#[periodic("0 9 * * *", tz = "Berlin")]
async fn cleanup() {}

fn main() {}
