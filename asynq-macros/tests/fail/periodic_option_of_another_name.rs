use asynq_cron::prelude::*;

#[periodic("@daily", timezone = "UTC")]
async fn cleanup() {}

fn main() {}
