//! Runs one job without any queue.

use crate::job::{Job, JobContext, decode_arguments, encode_arguments};

/// Runs a job as a worker does that has just taken it: its arguments go through the codec and back. The context has no
/// states; see [`run_in`].
///
/// ```
/// # use asynq_runtime::prelude::*;
/// #[job]
/// async fn double(n: u64) -> JobResult<u64> {
///     Ok(n * 2)
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// assert_eq!(asynq_runtime::testing::run(double { n: 21 }).await.unwrap(), 42);
/// # });
/// ```
///
/// # Panics
///
/// The arguments do not survive the codec.
pub async fn run<J: Job>(job: J) -> J::Output {
    run_in(&JobContext::detached(), job).await
}

/// [`run`] in a context of the caller, such as [`JobContext::detached_with`] some states.
///
/// # Panics
///
/// The arguments do not survive the codec.
pub async fn run_in<J: Job>(ctx: &JobContext, job: J) -> J::Output {
    let payload = encode_arguments(&job).unwrap_or_else(|error| panic!("{error}"));
    let job: J = decode_arguments(&payload).unwrap_or_else(|error| panic!("{error}"));
    job.run(ctx).await
}
