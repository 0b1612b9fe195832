//! The return types of jobs.

use serde::{Serialize, de::DeserializeOwned};

use super::error::{JobError, JobResult};

/// A return type that a job may have: `()`, or `Result<T, E>` with any error.
///
/// A `T` other than `()` is stored as the task's result, for as long as its retention says.
#[diagnostic::on_unimplemented(
    message = "a job cannot return `{Self}`",
    label = "not a job's return type",
    note = "a job returns `()`, or `Result<T, E>`: `T` derives `serde::Serialize`, and `E` implements `std::error::Error`, as `thiserror::Error` derives it, or is `JobError`, a text, or `BoxError`, a box with `Send + Sync`"
)]
pub trait IntoJobResult {
    /// The type of the stored result.
    type Value: Serialize + Send + 'static;

    /// Names the place that is checked; only expansions use it.
    #[doc(hidden)]
    const FITS: () = ();

    /// Returns the result in the one form that the server works with.
    ///
    /// # Errors
    ///
    /// The job's own error, with its policy.
    fn into_job_result(self) -> JobResult<Self::Value>;
}

/// A result that its caller can read: any type that serde can read.
#[diagnostic::on_unimplemented(
    message = "the result `{Self}` can be written and not read",
    label = "reads the result",
    note = "write `#[derive(serde::Deserialize)]` on the type, and on every type in it; for a type of another crate turn on that crate's feature `serde`"
)]
pub trait ReadResult: DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned> ReadResult for T {}

#[diagnostic::do_not_recommend]
impl IntoJobResult for () {
    type Value = ();

    fn into_job_result(self) -> JobResult<()> {
        Ok(())
    }
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + Send + 'static, E: Into<JobError>> IntoJobResult for Result<T, E> {
    type Value = T;

    fn into_job_result(self) -> JobResult<T> {
        self.map_err(Into::into)
    }
}
