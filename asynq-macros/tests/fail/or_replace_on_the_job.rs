use asynq_runtime::prelude::*;

#[job(or_replace = true, unique = "1h")]
async fn index(doc: u64) {
    let _ = doc;
}

fn main() {}
