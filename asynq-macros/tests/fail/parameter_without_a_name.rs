use asynq_runtime::prelude::*;

#[job]
async fn send(to: String, _: u8) {
    drop(to);
}

fn caller() {
    let _ = send::job("ann", 5);
}

fn main() {}
