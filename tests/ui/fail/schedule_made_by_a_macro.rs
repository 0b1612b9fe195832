use asynq_cron::prelude::*;
use asynq_runtime::prelude::*;

#[periodic(concat!("0 9", " * * *"))]
async fn cleanup() {}

fn main() {}
