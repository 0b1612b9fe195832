use asynq_runtime::prelude::*;

#[job(debounce = "30s", group = "digest")]
async fn index(doc: u64) {
    let _ = doc;
}

fn main() {}
