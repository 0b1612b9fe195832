use asynq_runtime::prelude::*;

#[job]
async fn send(#[cfg_attr(unix, serde(default))] to: String, subject: String) {
    drop((to, subject));
}

fn main() {}
