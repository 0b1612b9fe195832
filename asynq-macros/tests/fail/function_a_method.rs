use asynq_runtime::prelude::*;

struct Mailer;

impl Mailer {
    #[job]
    async fn send(&self, to: String) -> JobResult {
        Ok(drop(to))
    }
}

fn main() {}
