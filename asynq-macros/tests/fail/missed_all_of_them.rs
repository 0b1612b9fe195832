use asynq_cron::prelude::*;

#[periodic("@daily", missed = "all")]
async fn cleanup() {}

#[periodic("@daily", missed = "all(0)")]
async fn report() {}

fn main() {}
