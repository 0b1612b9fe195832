use asynq_runtime::prelude::*;

#[job]
async unsafe fn send(to: String) {
    drop(to);
}

fn main() {}
