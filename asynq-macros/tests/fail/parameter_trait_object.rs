use asynq_runtime::prelude::*;

#[job]
async fn send(to: &(dyn std::fmt::Display + Sync)) {
    let _ = to;
}

fn main() {}
