use asynq_runtime::prelude::*;

#[job(group = "mails:018cc251-f400-7a00-8000-000000000000")]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
