use asynq_cron::prelude::*;
use asynq_runtime::prelude::*;

#[periodic("@daily")]
async fn cleanup(tick: Tick, _again: Tick) {}

fn main() {}
