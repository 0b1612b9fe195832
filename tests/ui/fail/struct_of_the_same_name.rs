use asynq_runtime::prelude::*;

#[allow(non_camel_case_types)]
struct mail {
    text: String,
}

#[job]
async fn mail(to: String) -> JobResult {
    Ok(drop(to))
}

fn main() {}
