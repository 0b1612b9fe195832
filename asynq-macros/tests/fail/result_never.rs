use asynq_runtime::prelude::*;

#[job]
async fn send(to: String) -> ! {
    panic!("{to}")
}

fn main() {}
