use asynq_runtime::prelude::*;

#[job]
async fn resize(path: str, width: u32) -> JobResult<u64>;

#[job(queue = "mail")]
async fn send(data: [u8], mailer: State, to: String);

fn main() {}
