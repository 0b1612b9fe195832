use asynq_runtime::prelude::*;

#[job]
async fn note(text: String) {
    drop(text)
}

#[job(aggregates = note)]
async fn digest() {}

fn main() {}
