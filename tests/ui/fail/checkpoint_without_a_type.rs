use asynq_runtime::prelude::*;

#[job]
async fn import(cursor: Checkpoint, file: String) -> JobResult {
    cursor.save(file.len()).await?;
    Ok(())
}

fn main() {}
