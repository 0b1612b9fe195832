use asynq_cron::prelude::*;

#[periodic("0 9 * *")]
async fn cleanup() {}

fn main() {}
