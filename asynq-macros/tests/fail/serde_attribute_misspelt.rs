use asynq_runtime::prelude::*;

#[job]
async fn send(#[serde(defualt)] to: String) {
    drop(to);
}

fn main() {}
