use asynq_runtime::prelude::*;

struct Cursor {
    row: u64,
}

#[job]
async fn import(ctx: &JobContext, cursor: Checkpoint<Cursor>, file: String) -> JobResult {
    drop((ctx.id(), cursor, file));
    Ok(())
}

fn main() {
    let _ = Cursor { row: 1 }.row;
}
