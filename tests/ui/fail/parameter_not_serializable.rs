use asynq_runtime::prelude::*;

struct Address(String);

#[job]
async fn send(to: Address, subject: String) -> JobResult {
    Ok(drop((to.0, subject)))
}

fn main() {}
