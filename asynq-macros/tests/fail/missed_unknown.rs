use asynq_cron::prelude::*;

#[periodic("@daily", missed = "never")]
async fn cleanup() {}

fn main() {}
