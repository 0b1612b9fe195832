use asynq_cron::prelude::*;

#[periodic("@daily")]
async fn cleanup(days: u32) {
    drop(days);
}

fn main() {}
