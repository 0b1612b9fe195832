use asynq_runtime::prelude::*;

use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Note {
    text: String,
}

#[job(aggregates = Note)]
async fn digest(notes: Vec<Note>) {
    drop(notes)
}

fn main() {}
