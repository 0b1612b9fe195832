use asynq_runtime::prelude::*;

#[job]
const fn send(to: u8) {
    let _ = to;
}

fn main() {}
