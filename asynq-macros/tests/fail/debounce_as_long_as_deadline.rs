use asynq_runtime::prelude::*;

#[job(debounce = "30s", deadline = "10s")]
async fn index(doc: u64) {
    let _ = doc;
}

fn main() {}
