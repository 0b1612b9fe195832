use asynq_cron::prelude::*;

#[periodic("0 9 * * *", jitter = "5m", expires = "10m", deadline = "5m")]
async fn report() {}

fn main() {}
