use asynq_runtime::prelude::*;

#[job]
async fn send(mailer: &State<u8>) {
    let _ = **mailer;
}

fn main() {}
