use asynq_cron::prelude::*;

#[periodic("@every 1d")]
async fn cleanup() {}

fn main() {}
