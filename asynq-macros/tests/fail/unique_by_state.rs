use asynq_runtime::prelude::*;

#[job(unique = "1h", unique_by = "mailer")]
async fn send(mailer: State<u8>) -> JobResult {
    Ok(drop(mailer))
}

fn main() {}
