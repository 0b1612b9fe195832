use asynq_runtime::prelude::*;

#[job(backoff = "30s", on_error = policy, on_archive = gave_up, upgrade = from_v1)]
async fn send(ctx: &JobContext, to: String, mailer: State<Mailer>, cursor: Checkpoint<u64>) -> JobResult;

fn main() {}
