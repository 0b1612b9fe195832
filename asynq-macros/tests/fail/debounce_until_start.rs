use asynq_runtime::prelude::*;

#[job(debounce = "30s", unique_until = "start")]
async fn index(doc: u64) {
    let _ = doc;
}

fn main() {}
