use asynq_runtime::prelude::*;

#[job]
async fn send(mailer: State<&str>) {
    drop(mailer);
}

fn main() {}
