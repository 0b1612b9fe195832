//! Reports a wrong type of a job once, in the words of this crate.
//!
//! serde's derive and the job's own code would each complain about a type that does not fit, at length. So the expansion of
//! `#[job]` asks [`Argument`] and [`IntoJobResult`] in one constant, [`Checked::OK`], and everything else by a trait with
//! that constant as its parameter. If the constant fails to compile, the compiler says nothing about the code that depends on
//! it.

use std::future::Future;

use serde::{Serialize, de::DeserializeOwned};

use super::{Checkpoint, FromContext, Job, JobContext, JobError, JobResult, Policy, StateKey, output::IntoJobResult};

/// A type that can be stored as an argument of a job: any type that serde can write and read.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a job",
    label = "cannot be stored in a task",
    note = "write `#[derive(serde::Serialize, serde::Deserialize)]` on the type, and on every type in it; for a type of another crate turn on that crate's feature `serde`",
    note = "a parameter that the worker supplies is recognised by its name: write `State<T>` or `&JobContext`, not an alias, or mark it with `#[from_context]`"
)]
pub trait Argument {
    /// Names the place that is checked.
    const FITS: () = ();
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Argument for T {}

/// [`Argument`] for a type that is called `Client`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a job",
    label = "cannot be stored in a task",
    note = "for a client of the worker's broker take `State<Client>`, or `ctx: &JobContext` and call `ctx.client()?`"
)]
pub trait ClientArgument {
    /// Names the place that is checked.
    const FITS: () = ();
}

#[diagnostic::do_not_recommend]
impl<T: Argument> ClientArgument for T {}

/// [`Argument`] for a type that is called `Tick`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a job",
    label = "cannot be stored in a task",
    note = "a `Tick` belongs to a job with a schedule: write `#[periodic]` instead of `#[job]`"
)]
pub trait TickArgument {
    /// Names the place that is checked.
    const FITS: () = ();
}

#[diagnostic::do_not_recommend]
impl<T: Argument> TickArgument for T {}

/// A value that a text argument takes: text of any kind, which becomes the type that is stored.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot become the `{T}` that is stored",
    label = "expected text",
    note = "give a `&str` or a `{T}`, such as `value.to_string()`"
)]
pub trait IntoText<T> {
    /// Returns the text as it is stored.
    fn into_text(self) -> T;
}

#[diagnostic::do_not_recommend]
impl<T, S: Into<T>> IntoText<T> for S {
    fn into_text(self) -> T {
        self.into()
    }
}

/// A job whose tasks another one is made of (`aggregates`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a job",
    label = "expected a job",
    note = "put `#[job]` on a function and name it here, or write `impl Job for {Self}`"
)]
pub trait Part {
    /// Names the place that is checked.
    const FITS: () = ();
}

#[diagnostic::do_not_recommend]
impl<J: Job> Part for J {}

/// [`Part`] for the job's own code.
pub trait PartOf<const OK: usize> {
    /// The job itself.
    type Job: Job;
}

#[diagnostic::do_not_recommend]
impl<J: Job, const OK: usize> PartOf<OK> for J {
    type Job = J;
}

/// A job whose types were checked.
pub trait Checked {
    /// Does not compile if one of the types does not fit.
    const OK: usize;
    /// Does not compile if the type of the checkpoint does not fit.
    const CHECKPOINT: usize = 0;
}

/// [`Argument`] for serde's derive. Unlike a bound without a lifetime, `for<'a> Address: Stored<'a, ..>` is not refused if it
/// does not hold.
pub trait Stored<'a, const OK: usize>: Serialize + DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<'a, T: Serialize + DeserializeOwned, const OK: usize> Stored<'a, OK> for T {}

/// [`IntoJobResult`] for the job's own code.
pub trait Returned<const OK: usize> {
    /// The type of the stored result.
    type Value: Serialize + Send + 'static;

    /// Returns the result in the one form that the server works with.
    ///
    /// # Errors
    ///
    /// The job's own error, with its policy.
    fn into_job_result(self) -> JobResult<Self::Value>;
}

#[diagnostic::do_not_recommend]
impl<R: IntoJobResult, const OK: usize> Returned<OK> for R {
    type Value = R::Value;

    fn into_job_result(self) -> JobResult<Self::Value> {
        IntoJobResult::into_job_result(self)
    }
}

/// [`FromContext`] for the job's own code.
pub trait Supplied<const OK: usize>: Sized {
    /// The shared states that the parameter needs.
    const REQUIRES: &'static [StateKey];

    /// Makes the parameter for one attempt.
    ///
    /// # Errors
    ///
    /// Any error that keeps the job from running.
    fn from_context(ctx: &JobContext) -> impl Future<Output = Result<Self, JobError>> + Send;
}

#[diagnostic::do_not_recommend]
impl<T: FromContext, const OK: usize> Supplied<OK> for T {
    const REQUIRES: &'static [StateKey] = <T as FromContext>::REQUIRES;

    fn from_context(ctx: &JobContext) -> impl Future<Output = Result<Self, JobError>> + Send {
        <T as FromContext>::from_context(ctx)
    }
}

/// A type that can be stored as the checkpoint of a task.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the checkpoint of a job",
    label = "cannot be stored with a task",
    note = "write `#[derive(serde::Serialize, serde::Deserialize)]` on the type, and on every type in it; for a type of another crate turn on that crate's feature `serde`; the type is `Send`, too"
)]
pub trait CheckpointValue {
    /// Names the place that is checked.
    const FITS: () = ();
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Send + 'static> CheckpointValue for T {}

/// [`CheckpointValue`] for the job's own code.
pub trait Loaded<const OK: usize>: Sized {
    /// Returns the checkpoint of the task.
    ///
    /// # Errors
    ///
    /// Those of [`JobContext::checkpoint`].
    fn checkpoint(ctx: &JobContext) -> impl Future<Output = Result<Checkpoint<Self>, JobError>> + Send;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Send + 'static, const OK: usize> Loaded<OK> for T {
    fn checkpoint(ctx: &JobContext) -> impl Future<Output = Result<Checkpoint<Self>, JobError>> + Send {
        ctx.checkpoint()
    }
}

/// An error of a job, for the job's own code.
pub trait Failed<const OK: usize> {
    /// Returns the error as the framework's.
    fn into_job_error(self) -> JobError;
}

#[diagnostic::do_not_recommend]
impl<E: Into<JobError>, const OK: usize> Failed<OK> for E {
    fn into_job_error(self) -> JobError {
        self.into()
    }
}

/// The result of a job with an error type of its own, and the job's `on_error` function. `OnError` is a struct, because the
/// compiler says less of a wrong field than of a wrong argument.
#[allow(missing_debug_implementations, reason = "expansions make it and use it up")]
pub struct OnError<T, E> {
    /// The result of the job's function.
    pub result: Result<T, E>,
    /// The `on_error` function, which returns the policy for the task.
    pub policy: fn(&E) -> Policy,
}

impl<T, E> OnError<T, E> {
    /// Gives the error the policy that the `on_error` function returns.
    ///
    /// # Errors
    ///
    /// The error that came in, with its policy.
    pub fn into_job_result<const OK: usize>(self) -> JobResult<T>
    where
        E: Failed<OK>,
    {
        self.result.map_err(|error| {
            let policy = (self.policy)(&error);
            error.into_job_error().with_policy(policy)
        })
    }
}
