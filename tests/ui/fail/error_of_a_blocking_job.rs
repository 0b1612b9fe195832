use asynq_runtime::prelude::*;

struct Oops;

#[job]
fn blocking(path: String) -> Result<(), Oops> {
    drop(path);
    Err(Oops)
}

fn main() {}
