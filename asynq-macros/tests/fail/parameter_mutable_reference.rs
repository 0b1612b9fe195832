use asynq_runtime::prelude::*;

#[job]
async fn send(to: &mut String) {
    to.clear();
}

fn main() {}
