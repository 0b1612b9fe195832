use asynq_cron::prelude::*;

#[periodic("0 9 * * *", tz = "Europe/Berln")]
async fn cleanup() {}

fn main() {}
