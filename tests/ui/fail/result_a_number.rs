use asynq_runtime::prelude::*;

#[job]
async fn send(to: String) -> usize {
    to.len()
}

fn main() {}
