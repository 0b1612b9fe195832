use asynq_runtime::prelude::*;

#[job(debounce = "0s", unique_by = "doc")]
async fn index(doc: u64) {
    let _ = doc;
}

fn main() {}
