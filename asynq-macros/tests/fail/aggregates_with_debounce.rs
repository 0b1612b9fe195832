use asynq_runtime::prelude::*;

#[job]
async fn note(text: String) {
    drop(text)
}

#[job(aggregates = note, debounce = "30s")]
async fn digest(notes: Vec<note>) {
    drop(notes)
}

fn main() {}
