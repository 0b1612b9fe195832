use asynq_runtime::prelude::*;

#[job(backoff = "30s", on_error = policy, on_archive = gave_up)]
async fn send(ctx: &JobContext, to: String, mailer: State<Mailer>) -> JobResult;

fn main() {}
