//! The call by which the expansion of a blocking job runs its body.

use super::{context::JobContext, error::JobResult};

/// Runs the body of a blocking job on a thread that may block (`BlockingPool::run`).
///
/// # Errors
///
/// The error of the body, or that the runtime is ending.
///
/// # Panics
///
/// Resumes a panic of the body, so that it is reported like a panic of any other job.
pub async fn run_blocking<R: Send + 'static>(
    ctx: &JobContext,
    body: impl FnOnce(&JobContext) -> JobResult<R> + Send + 'static,
) -> JobResult<R> {
    let inside = ctx.clone();
    ctx.blocking_pool().run(move || body(&inside)).await
}
