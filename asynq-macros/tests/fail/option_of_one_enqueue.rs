use asynq_runtime::prelude::*;

#[job(task_id = "welcome")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
