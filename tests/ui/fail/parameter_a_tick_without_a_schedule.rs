use asynq_cron::Tick;
use asynq_runtime::prelude::*;

#[job]
async fn report(tick: Tick) {
    drop(tick);
}

fn main() {}
