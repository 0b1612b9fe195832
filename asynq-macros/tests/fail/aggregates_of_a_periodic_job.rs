use asynq_cron::prelude::*;
use asynq_runtime::prelude::*;

#[job]
async fn note(text: String) {
    drop(text)
}

#[periodic("@daily", aggregates = note)]
async fn digest() {}

fn main() {}
