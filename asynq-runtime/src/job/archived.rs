//! The function of a job for its archived tasks, which the worker calls when a task is given up.

use std::{fmt, future::Future};

use super::{
    BoxFuture, Job, JobContext, JobError, PayloadError,
    resolve::{ShapeLookup, resolve},
};

/// A task of `J` that is given up, as the job's `on_archive` function gets it.
#[non_exhaustive]
pub struct ArchivedTask<J> {
    /// The arguments, or the reason why this program cannot read them.
    pub job: Result<J, PayloadError>,
    /// The task, the states of the server and its client. The attempt has ended: its deadline, its cancellation and the
    /// values that layers put beside it are not here.
    pub ctx: JobContext,
    /// Why the task is given up: the error that the job returned, whose [`source`](JobError::source) has its own type, or a
    /// text if the job returned no error: after a panic or a timeout, or for a task that was never started.
    pub error: JobError,
}

/// The function that is called with the archived tasks of a job. `#[job(on_archive = refund)]` writes it; by hand:
///
/// ```
/// use asynq_runtime::{job::OnArchive, prelude::*};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Charge { order: u64 }
///
/// async fn refund(task: ArchivedTask<Charge>) {
///     if let Ok(Charge { order }) = task.job {
///         println!("order {order} is not paid: {}", task.error);
///     }
/// }
///
/// impl Job for Charge {
///     const NAME: &'static str = "charge";
///     const ON_ARCHIVE: Option<OnArchive<Self>> = Some(OnArchive::new(|task| task.call(refund)));
///     type Output = JobResult;
///     async fn run(self, _: &JobContext) -> JobResult {
///         Ok(())
///     }
/// }
/// ```
pub struct OnArchive<J: Job>(fn(ArchivedTask<J>) -> BoxFuture<'static, ()>);

impl<J: Job> OnArchive<J> {
    /// Wraps a function that passes the task on with [`ArchivedTask::call`].
    pub const fn new(function: fn(ArchivedTask<J>) -> BoxFuture<'static, ()>) -> Self {
        Self(function)
    }

    pub(super) fn call(
        &self,
        ctx: JobContext,
        lookup: Option<&ShapeLookup>,
        error: JobError,
    ) -> BoxFuture<'static, ()> {
        (self.0)(ArchivedTask { job: resolve(ctx.payload(), lookup), ctx, error })
    }
}

impl<J: Job> ArchivedTask<J> {
    /// Calls `function` with this task.
    pub fn call<R>(self, function: fn(Self) -> R) -> BoxFuture<'static, ()>
    where
        R: Future<Output = ()> + Send + 'static,
    {
        Box::pin(function(self))
    }
}

impl<J> fmt::Debug for ArchivedTask<J> {
    /// Omits the arguments, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArchivedTask").field("ctx", &self.ctx).field("error", &self.error).finish_non_exhaustive()
    }
}

impl<J: Job> fmt::Debug for OnArchive<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnArchive").field(&J::NAME).finish()
    }
}
