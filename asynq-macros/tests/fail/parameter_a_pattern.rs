use asynq_runtime::prelude::*;

#[job]
async fn send((to, subject): (String, String)) {
    drop((to, subject));
}

fn main() {}
