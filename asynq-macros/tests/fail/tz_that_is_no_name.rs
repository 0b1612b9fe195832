use asynq_cron::prelude::*;

#[periodic("0 9 * * *", tz = "../etc/passwd")]
async fn cleanup() {}

fn main() {}
