use asynq_runtime::prelude::*;

#[job]
async fn note(text: String) {
    drop(text)
}

#[job(aggregates = note)]
async fn digest(notes: Vec<note>, to: String) {
    drop((notes, to))
}

fn main() {}
