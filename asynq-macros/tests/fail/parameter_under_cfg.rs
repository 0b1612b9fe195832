use asynq_runtime::prelude::*;

#[job]
async fn send(#[cfg(unix)] to: String) {
    drop(to);
}

fn main() {}
