//! Errors of jobs: any error, with a policy for the task.

use std::{error::Error, fmt, time::Duration};

use super::times::IntoSpan;
use crate::task::{add_causes, chain};

/// Any error that a job may return with `?`.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The return type of most jobs.
pub type JobResult<T = ()> = Result<T, JobError>;

/// The policy for a task whose job returned an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Policy {
    /// The task is tried again later, as often as it may be retried, and then archived. The default.
    #[default]
    Fail,
    /// The task is archived at once.
    SkipRetry,
    /// The task is deleted, or kept as completed without a result if it is [awaited](crate::JobBuilder::awaited); counted as
    /// processed, not as failed.
    Revoke,
    /// A failure: the task is tried again after this time instead of the usual back-off, or archived when no retry is left.
    RetryIn(Duration),
    /// Not a failure: the task runs again after this time, and no retry is spent.
    Snooze(Duration),
    /// Not a failure: the task runs again after the usual back-off. The error's text is kept, no retry is spent and nothing
    /// is counted as failed. After 25 such ends in a row the next one counts as a failure, so that nothing goes on for ever.
    NotAFailure,
}

/// Why a job did not succeed, with the [`Policy`] for its task.
///
/// Every error converts into a `JobError`, so `?` works on anything, anyhow's included; such an error has [`Policy::Fail`].
/// To allow that, `JobError` does not implement [`std::error::Error`] itself; [`into_error`](Self::into_error) returns an
/// error that does and keeps the policy through a later `?`.
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
#[derive(Debug)]
pub struct JobError {
    source: BoxError,
    policy: Policy,
}

impl JobError {
    /// Returns an ordinary failure: the task is tried again, then archived.
    pub fn fail(error: impl Into<BoxError>) -> Self {
        Self::with(error, Policy::Fail)
    }

    /// Returns a failure that no retry can repair: the task is archived at once.
    #[doc(alias("discard", "dead_letter", "abort"))]
    pub fn skip_retry(error: impl Into<BoxError>) -> Self {
        Self::with(error, Policy::SkipRetry)
    }

    /// Returns the error of a task that is not wanted any more: the task is deleted, or kept as completed without a result if it is
    /// [awaited](crate::JobBuilder::awaited). A job that returns it whenever [`is_stopping`](crate::JobContext::is_stopping) is true
    /// loses its task on every deploy.
    pub fn revoke(error: impl Into<BoxError>) -> Self {
        Self::with(error, Policy::Revoke)
    }

    /// Returns a failure after which the task is tried again after `delay`, or archived when no retry is left. A delay that cannot
    /// be read makes an ordinary failure whose text quotes the delay.
    pub fn retry_in(delay: impl IntoSpan, error: impl Into<BoxError>) -> Self {
        match delay.into_span() {
            Ok(delay) => Self::with(error, Policy::RetryIn(delay)),
            Err(invalid) => Self::fail(format!("{} ({invalid})", error.into())),
        }
    }

    /// Returns an error that is not a failure: the task runs again after `delay`, and no retry is spent. A delay that cannot
    /// be read makes an ordinary failure whose text quotes the delay.
    #[doc(alias("reschedule", "release"))]
    pub fn snooze(delay: impl IntoSpan) -> Self {
        match delay.into_span() {
            Ok(delay) => Self::with("snoozed", Policy::Snooze(delay)),
            Err(invalid) => Self::fail(invalid),
        }
    }

    /// Returns an error that is not a failure: the task runs again after the usual back-off, with this text as its last
    /// error; no retry is spent and nothing is counted as failed. A server's `is_failure` decides the same for all errors.
    /// asynq goes on like that for ever; here every 26th such end in a row is a failure.
    pub fn not_a_failure(error: impl Into<BoxError>) -> Self {
        Self::with(error, Policy::NotAFailure)
    }

    /// Returns this error with another policy, such as that of an error which a layer wraps: `JobError::fail(wrapped).with_policy(policy)`.
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Returns the policy for the task.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Returns the error itself.
    pub fn source(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.source
    }

    /// Returns an ordinary error that carries the policy: `?` on it, even through anyhow, restores this `JobError`.
    pub fn into_error(self) -> BoxError {
        match self.policy {
            // An error in the chain may carry an older policy, which only another carrier overrules.
            Policy::Fail if policy_in_chain(&*self.source) == Policy::Fail => self.source,
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

/// Returns the error of a job without a body, for a caller that runs the job all the same, such as a test.
pub fn no_handler<J: super::Job>() -> JobError {
    JobError::skip_retry(format!("job `{}` has no body: another program runs it", J::NAME))
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

/// Returns the text of an error and of each cause that the text so far does not contain, each cause cut to 4 KiB.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    add_causes(error.to_string(), error.source())
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
    fn an_explicit_failure_overrules_the_older_policy_of_its_cause() {
        let cause = Outer(JobError::skip_retry("bad address").into_error());
        let error = JobError::from(JobError::fail(cause).into_error());
        assert_eq!((error.policy(), error.to_string()), (Policy::Fail, "outer".into()));
        // An error without an older policy stays itself, so that it can be downcast.
        assert!(JobError::fail(std::io::Error::other("disk")).into_error().is::<std::io::Error>());
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
