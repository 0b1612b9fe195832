use asynq_runtime::prelude::*;

#[job]
fn send(to: String) -> Option<u32> {
    u32::try_from(to.len()).ok()
}

fn main() {}
