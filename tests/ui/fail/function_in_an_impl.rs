use asynq_runtime::prelude::*;

struct Mailer;

impl Mailer {
    #[job]
    async fn mail(to: String) -> JobResult {
        Ok(drop(to))
    }
}

fn main() {}
