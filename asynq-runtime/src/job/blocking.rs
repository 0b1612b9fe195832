//! Where jobs run that block: threads of their own, never the async ones, with a limit of their own.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::{
    context::JobContext,
    error::{JobError, JobResult},
};

/// The limit of blocking jobs that run at the same time.
///
/// A blocking job keeps its place until its thread returns, even after its attempt has timed out (RELIABILITY F29):
/// there is no way to stop a thread, and starting another would exceed what the machine was asked to carry.
#[derive(Debug, Clone)]
pub struct BlockingPool(Arc<Semaphore>);

impl BlockingPool {
    /// At most `limit` jobs at a time; at least one.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Semaphore::new(limit.clamp(1, Semaphore::MAX_PERMITS))))
    }

    /// How many more could start now.
    pub fn available(&self) -> usize {
        self.0.available_permits()
    }
}

impl Default for BlockingPool {
    /// 512, tokio's own number of blocking threads.
    fn default() -> Self {
        Self::new(512)
    }
}

/// Runs the body of a blocking job on a thread that may block.
///
/// # Errors
///
/// What the body returned, or that the runtime is ending.
///
/// # Panics
///
/// Goes on with a panic of the body, so that it is told like a panic of any other job.
pub async fn run_blocking<R: Send + 'static>(
    ctx: &JobContext,
    body: impl FnOnce(&JobContext) -> JobResult<R> + Send + 'static,
) -> JobResult<R> {
    let pool = ctx.blocking_pool().clone();
    let Ok(place) = pool.0.acquire_owned().await else {
        return Err(JobError::fail("the blocking pool is closed"));
    };
    let ctx = ctx.clone();
    let span = tracing::Span::current();
    let thread = tokio::task::spawn_blocking(move || {
        let _place = place;
        span.in_scope(|| body(&ctx))
    });
    match thread.await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(JobError::fail("the runtime ended before the job started")),
        },
    }
}
