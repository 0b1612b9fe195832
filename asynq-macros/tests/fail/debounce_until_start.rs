#[asynq_runtime::job(debounce = "30s", unique_until = "start")]
async fn index(doc: u64) {}

fn main() {}
