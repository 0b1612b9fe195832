use asynq_cron::prelude::*;

#[periodic("@daily")]
#[job]
async fn cleanup() {}

fn main() {}
