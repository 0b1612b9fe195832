use asynq_runtime::prelude::*;

#[job]
async fn send(to: Adress) -> JobResult {
    Ok(drop(to))
}

fn main() {}
