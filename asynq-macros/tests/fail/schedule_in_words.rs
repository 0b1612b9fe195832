use asynq_cron::prelude::*;

#[periodic("every 5 minutes")]
async fn cleanup() {}

fn main() {}
