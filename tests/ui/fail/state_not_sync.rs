use asynq_runtime::prelude::*;

#[job]
async fn send(counter: State<std::cell::Cell<u8>>) {
    drop(counter);
}

fn main() {}
