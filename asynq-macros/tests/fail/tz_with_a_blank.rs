use asynq_cron::prelude::*;

#[periodic("0 9 * * *", tz = "Europe/Berlin ")]
async fn cleanup() {}

#[periodic("0 9 * * *", tz = "r#UTC")]
async fn tidy() {}

fn main() {}
