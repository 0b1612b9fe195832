use asynq_cron::prelude::*;

#[periodic("@daily")]
async fn cleanup(tick: Tick, _again: Tick) {
    drop(tick);
}

fn main() {}
