use asynq_cron::prelude::*;
use asynq_runtime::prelude::*;

#[periodic("TZ=Europe/Berln 0 9 * * *")]
async fn cleanup() {}

fn main() {}
