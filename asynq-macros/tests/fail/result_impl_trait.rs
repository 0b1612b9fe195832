use asynq_runtime::prelude::*;

#[job]
async fn send(to: String) -> impl Sized {
    to.len()
}

fn main() {}
