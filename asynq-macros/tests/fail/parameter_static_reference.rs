use asynq_runtime::prelude::*;

#[job]
async fn send(to: &'static str) {
    let _ = to;
}

fn main() {}
