use asynq_runtime::prelude::*;

#[job]
async fn send(to: impl Into<String>) {
    drop(to.into());
}

fn main() {}
