use asynq_runtime::prelude::*;

#[job]
async fn send(#[serde(default)] mailer: State<u8>, to: String) {
    drop((mailer, to));
}

fn main() {}
