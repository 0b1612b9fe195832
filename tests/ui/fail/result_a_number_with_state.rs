use asynq_runtime::prelude::*;

#[job]
async fn send(to: String, mailer: State<u8>) -> usize {
    to.len() + usize::from(*mailer)
}

fn main() {}
