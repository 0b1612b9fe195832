use asynq_runtime::prelude::*;

trait Mailer {
    #[job]
    async fn send(to: String) -> JobResult;
}

fn main() {}
