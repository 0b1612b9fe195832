use asynq_cron::prelude::*;

#[periodic("@daily")]
async fn report();

fn main() {}
