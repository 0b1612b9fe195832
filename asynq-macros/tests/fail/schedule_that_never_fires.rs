use asynq_cron::prelude::*;

#[periodic("0 0 30 2 *")]
async fn cleanup() {}

fn main() {}
