use asynq_cron::prelude::*;

#[periodic(concat!("0 9", " * * *"))]
async fn cleanup() {}

fn main() {}
