use asynq_cron::prelude::*;

#[periodic("TZ=Europe/Berln 0 9 * * *")]
async fn cleanup() {}

fn main() {}
