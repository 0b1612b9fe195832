//! How a job fails: any error, with a policy that says what becomes of the task.

use std::{error::Error, fmt, iter, time::Duration};

use super::{times::IntoSpan, type_checks::Failed};

/// Any error that a job may return with `?`.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// What a job returns.
pub type JobResult<T = ()> = Result<T, JobError>;

/// What becomes of a task whose job returned an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Policy {
    /// Try again later, as often as the task may be retried; then archive it. The default.
    #[default]
    Fail,
    /// Archive it at once.
    SkipRetry,
    /// Drop it: deleted, counted as processed, not as failed.
    Revoke,
    /// A failure that is tried again after this time instead of the usual back-off.
    RetryIn(Duration),
    /// Not a failure: run it again after this time, no retry spent.
    Snooze(Duration),
    /// Not a failure: run it again after the usual back-off, its text kept, no retry spent and not counted as failed.
    /// After 25 such ends in a row the next one counts as a failure, so that nothing goes on for ever.
    NotAFailure,
}

/// Why a job did not succeed, and what becomes of its task.
///
/// Every error converts into it, so `?` works on anything, anyhow's included; such an error has [`Policy::Fail`]. For
/// that it does not implement [`std::error::Error`] itself; [`into_error`](Self::into_error) gives an error that does
/// and keeps the policy through a later `?`.
///
/// ```
/// # use asynq_runtime::prelude::*;
/// #[job]
/// async fn charge(order: String) -> JobResult {
///     let order: u64 = match order.parse() {
///         Ok(order) => order,
///         Err(error) => return Err(JobError::skip_retry(error)), // archived at once
///     };
///     if order == 0 {
///         return Err(JobError::retry_in("30s", "the bank is busy"));
///     }
///     std::fs::write("receipt", order.to_string())?; // tried again, as any error
///     Ok(())
/// }
/// ```
pub struct JobError {
    source: BoxError,
    policy: Policy,
}

impl JobError {
    /// An ordinary failure: tried again, then archived.
    pub fn fail(error: impl Into<BoxError>) -> Self {
        Self::with(error, Policy::Fail)
    }

    /// A failure that no retry can repair: archived at once.
    #[doc(alias("discard", "dead_letter", "abort"))]
    pub fn skip_retry(error: impl Into<BoxError>) -> Self {
        Self::with(error, Policy::SkipRetry)
    }

    /// The task is not wanted any more: dropped.
    pub fn revoke(error: impl Into<BoxError>) -> Self {
        Self::with(error, Policy::Revoke)
    }

    /// A failure that is tried again after `delay`. A delay that cannot be read makes it an ordinary failure whose text
    /// quotes the delay.
    pub fn retry_in(delay: impl IntoSpan, error: impl Into<BoxError>) -> Self {
        match delay.into_span() {
            Ok(delay) => Self::with(error, Policy::RetryIn(delay)),
            Err(invalid) => Self::fail(format!("{} ({invalid})", error.into())),
        }
    }

    /// Not a failure: the task runs again after `delay`, no retry spent. A delay that cannot be read makes it an
    /// ordinary failure whose text quotes the delay.
    #[doc(alias("reschedule", "release"))]
    pub fn snooze(delay: impl IntoSpan) -> Self {
        match delay.into_span() {
            Ok(delay) => Self::with("snoozed", Policy::Snooze(delay)),
            Err(invalid) => Self::fail(invalid),
        }
    }

    /// Not a failure: the task runs again after the usual back-off, with this text as its last error; no retry is spent
    /// and nothing is counted as failed. What a server's `is_failure` decides for all errors. asynq goes on like that for
    /// ever; here every 26th such end in a row is a failure.
    pub fn not_a_failure(error: impl Into<BoxError>) -> Self {
        Self::with(error, Policy::NotAFailure)
    }

    /// The same error with another policy.
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// What becomes of the task.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// The error itself.
    pub fn source(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.source
    }

    /// An ordinary error that still carries the policy: `?` on it, even through anyhow, restores this one.
    pub fn into_error(self) -> BoxError {
        match self.policy {
            Policy::Fail => self.source,
            policy => Box::new(WithPolicy { source: self.source, policy }),
        }
    }

    fn with(error: impl Into<BoxError>, policy: Policy) -> Self {
        Self { source: error.into(), policy }
    }
}

impl<E: Into<BoxError>> From<E> for JobError {
    fn from(error: E) -> Self {
        match error.into().downcast::<WithPolicy>() {
            Ok(carrier) => Self { source: carrier.source, policy: carrier.policy },
            Err(source) => {
                let policy = policy_in_chain(&*source);
                Self { source, policy }
            }
        }
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.source, f)
    }
}

impl fmt::Debug for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobError").field("source", &self.source).field("policy", &self.policy).finish()
    }
}

/// What a job without a body returns to a caller that runs it all the same, such as a test.
pub fn no_handler<J: super::Job>() -> JobError {
    JobError::skip_retry(format!("job `{}` has no body: another program runs it", J::NAME))
}

/// What a job of an own error type returned, and its `on_error` function. A struct, because the compiler says less of a wrong field
/// than of a wrong argument.
#[allow(missing_debug_implementations, reason = "expansions make it and use it up")]
pub struct OnError<T, E> {
    /// What the function returned.
    pub result: Result<T, E>,
    /// What becomes of a task whose job failed so.
    pub policy: fn(&E) -> Policy,
}

impl<T, E> OnError<T, E> {
    /// Gives the error the policy that the function decides.
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

/// Carries a policy through an ordinary error.
#[derive(Debug)]
struct WithPolicy {
    source: BoxError,
    policy: Policy,
}

impl fmt::Display for WithPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.source, f)
    }
}

impl Error for WithPolicy {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.source()
    }
}

fn policy_in_chain(error: &(dyn Error + 'static)) -> Policy {
    let carrier = chain(Some(error)).find_map(|error| error.downcast_ref::<WithPolicy>());
    carrier.map_or(Policy::Fail, |carrier| carrier.policy)
}

/// How deep causes are followed. An error may say that it is its own cause.
const DEEPEST_CAUSE: usize = 32;

/// An error and its causes, the nearest first, as far as it makes sense to follow them.
pub(crate) fn chain<'e>(first: Option<&'e (dyn Error + 'static)>) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    iter::successors(first, |&error| error.source()).take(DEEPEST_CAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] BoxError);

    #[test]
    fn a_policy_survives_later_question_marks() {
        fn inner() -> Result<(), BoxError> {
            Err(JobError::skip_retry("bad address").into_error())
        }
        fn direct() -> JobResult {
            inner()?;
            Ok(())
        }
        fn wrapped() -> JobResult {
            inner().map_err(Outer)?;
            Ok(())
        }
        let error = direct().unwrap_err();
        assert_eq!((error.policy(), error.to_string()), (Policy::SkipRetry, "bad address".into()));
        let error = wrapped().unwrap_err();
        assert_eq!((error.policy(), error.to_string()), (Policy::SkipRetry, "outer".into()));
    }

    #[test]
    fn any_error_is_an_ordinary_failure() {
        fn io() -> JobResult {
            Err(std::io::Error::other("disk"))?;
            Ok(())
        }
        assert_eq!(io().unwrap_err().policy(), Policy::Fail);
        assert_eq!(JobError::from("text").to_string(), "text");
    }

    #[test]
    fn a_delay_that_cannot_be_read_is_quoted_in_an_ordinary_failure() {
        let error = JobError::retry_in("3 parsecs", "throttled");
        assert_eq!(error.policy(), Policy::Fail);
        assert!(error.to_string().contains("3 parsecs"), "{error}");
        assert_eq!(JobError::snooze("5m").policy(), Policy::Snooze(Duration::from_secs(300)));
    }
}
