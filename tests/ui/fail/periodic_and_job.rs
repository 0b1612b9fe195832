use asynq_cron::prelude::*;
use asynq_runtime::prelude::*;

#[periodic("@daily")]
#[job]
async fn cleanup() {}

fn main() {}
