use asynq_runtime::prelude::*;

async fn caller(task: Enqueued<send>) {
    let _ = task.wait(30).await;
}

#[job]
async fn send(to: String) -> JobResult<u32> {
    Ok(to.len() as u32)
}

fn main() {}
