use asynq_runtime::prelude::*;

#[job]
async fn send(#[serde(default)] copies: u8, (to, cc): (String, String)) {
    drop((copies, to, cc));
}

fn main() {}
