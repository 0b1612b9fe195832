use asynq_cron::prelude::*;

#[periodic("0 9-25 * * mon-fri", queue = "low")]
async fn cleanup() {}

fn main() {}
