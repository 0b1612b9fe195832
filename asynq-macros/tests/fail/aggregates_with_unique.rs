use asynq_runtime::prelude::*;

#[job]
async fn note(text: String) {
    drop(text)
}

#[job(aggregates = note, unique = "10m")]
async fn digest(notes: Vec<note>) {
    drop(notes)
}

fn main() {}
