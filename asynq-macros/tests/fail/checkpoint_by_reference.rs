use asynq_runtime::prelude::*;

#[job]
async fn import(cursor: &Checkpoint<u64>) {
    let _ = cursor;
}

fn main() {}
