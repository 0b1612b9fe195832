use asynq_runtime::prelude::*;

#[job]
struct Send {
    to: String,
}

fn main() {}
