use asynq_cron::prelude::*;
use asynq_runtime::prelude::*;

#[periodic("@daily", overlap = "skipp")]
async fn cleanup() {}

fn main() {}
