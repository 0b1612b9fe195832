use asynq_runtime::prelude::*;

#[job(unique = "1h", debounce_max = "5m")]
async fn index(doc: u64) {
    let _ = doc;
}

fn main() {}
