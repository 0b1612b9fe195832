use asynq_cron::prelude::*;

#[periodic(schedule = "@daily", retry = 1)]
async fn cleanup() {}

fn main() {}
