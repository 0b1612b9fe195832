use asynq_runtime::prelude::*;

#[job]
async fn import(cursor: Checkpoint<&str>) {
    drop(cursor);
}

fn main() {}
