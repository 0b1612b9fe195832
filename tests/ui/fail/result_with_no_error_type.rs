use asynq_runtime::prelude::*;

struct Oops;

#[job]
async fn send(to: String) -> Result<(), Oops> {
    drop(to);
    Err(Oops)
}

fn main() {}
