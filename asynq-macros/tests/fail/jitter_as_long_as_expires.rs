use asynq_cron::prelude::*;

#[periodic("0 9 * * *", expires = "10m", jitter = "30m")]
async fn report() {}

fn main() {}
