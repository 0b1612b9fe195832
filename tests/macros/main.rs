//! The expansion of `#[job]`, tested from the outside.

mod hygiene;
mod parameters;
mod reexpansion;
mod scopes;
mod usage;

use asynq_runtime::{Job, JobContext, job::IntoJobResult};

/// Runs a job as a worker does, without a worker.
async fn run<J: Job>(job: J) -> Result<<J::Output as IntoJobResult>::Value, asynq_runtime::JobError> {
    run_in(&JobContext::detached(), job).await
}

async fn run_in<J: Job>(
    ctx: &JobContext,
    job: J,
) -> Result<<J::Output as IntoJobResult>::Value, asynq_runtime::JobError> {
    job.run(ctx).await.into_job_result()
}
