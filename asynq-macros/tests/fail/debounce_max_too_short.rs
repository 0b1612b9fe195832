use asynq_runtime::prelude::*;

#[job(debounce = "30s", debounce_max = "5s")]
async fn index(doc: u64) {
    let _ = doc;
}

fn main() {}
