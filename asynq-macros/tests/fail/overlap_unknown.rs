use asynq_cron::prelude::*;

#[periodic("@daily", overlap = "skipp")]
async fn cleanup() {}

fn main() {}
