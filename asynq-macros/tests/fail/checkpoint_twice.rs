use asynq_runtime::prelude::*;

#[job]
async fn import(rows: Checkpoint<u64>, file: String, columns: Checkpoint<u8>) {
    drop((rows, file, columns));
}

fn main() {}
