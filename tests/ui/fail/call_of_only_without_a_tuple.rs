use asynq_runtime::prelude::*;

#[job]
async fn send(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {
    let _ = Registry::only::<send>();
}
