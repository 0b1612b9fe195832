use asynq_runtime::prelude::*;

#[job]
async fn send(mailer: State) {
    drop(mailer);
}

fn main() {}
