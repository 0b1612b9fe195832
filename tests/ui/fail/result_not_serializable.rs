use asynq_runtime::prelude::*;

struct Receipt;

#[job]
async fn send(to: String) -> JobResult<Receipt> {
    drop(to);
    Ok(Receipt)
}

fn main() {}
