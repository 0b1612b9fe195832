use asynq_runtime::prelude::*;

#[job]
async fn send(to: String) -> JobResult {
    let shared = std::rc::Rc::new(to);
    std::future::ready(()).await;
    Ok(drop(shared))
}

fn main() {}
