use asynq_runtime::prelude::*;

#[job]
extern "C" fn send(to: u8) {
    let _ = to;
}

fn main() {}
