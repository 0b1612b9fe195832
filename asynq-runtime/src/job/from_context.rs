//! Parameters of a job that the worker supplies, not the caller.

use std::{any::type_name, future::Future};

use super::{JobContext, JobError, State, StateKey};

/// A parameter of a job that is not stored: it is made of the attempt's context before the job runs.
///
/// `State<T>` is such a parameter. A parameter of the program's own type is marked with `#[from_context]`:
///
/// ```
/// use asynq_runtime::{job::StateKey, prelude::*};
///
/// pub struct Pool;
/// /// Whose data a task works on: the header says so.
/// pub struct Tenant(pub String);
///
/// impl FromContext for Tenant {
///     const REQUIRES: &'static [StateKey] = &[StateKey::of::<Pool>()];
///
///     async fn from_context(ctx: &JobContext) -> JobResult<Self> {
///         let name = ctx.header("tenant").ok_or_else(|| JobError::skip_retry("the header `tenant` is missing"))?;
///         let _pool: Option<State<Pool>> = ctx.state();
///         Ok(Self(name.to_owned()))
///     }
/// }
///
/// #[job]
/// async fn bill(#[from_context] tenant: Tenant, month: String) -> JobResult {
///     println!("{}: {month}", tenant.0);
///     Ok(())
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not supplied by a worker",
    label = "neither state nor `FromContext`",
    note = "shared state is `asynq_runtime::State<T>` of a `T` that is `Send` and `Sync`, such as a `Mutex`, or `Shared<T>` where another `State` is imported; an argument called so is marked with `#[arg]`"
)]
pub trait FromContext: Sized {
    /// The shared states that the parameter needs; a server without one of them refuses to start.
    const REQUIRES: &'static [StateKey] = &[];

    /// Makes the parameter for one attempt. The time of this call counts as the attempt's.
    ///
    /// # Errors
    ///
    /// Any error that keeps the job from running: the attempt fails with it, and its policy decides about the task.
    fn from_context(ctx: &JobContext) -> impl Future<Output = Result<Self, JobError>> + Send;
}

// The note of the trait says what to write.
#[diagnostic::do_not_recommend]
impl<T: Send + Sync + 'static> FromContext for State<T> {
    const REQUIRES: &'static [StateKey] = &[StateKey::of::<T>()];

    async fn from_context(ctx: &JobContext) -> Result<Self, JobError> {
        // A server checks the states of `REQUIRES` at the start, so this is mostly the error of a test.
        ctx.state::<T>().ok_or_else(|| {
            JobError::skip_retry(format!(
                "there is no State<{}>; give it with `.state(..)` in the set-up, and in a test with `TestApp::state` or `JobContext::detached_with`",
                type_name::<T>()
            ))
        })
    }
}
