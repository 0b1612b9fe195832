//! The outcome of a wait for the end of a task.

use std::borrow::Cow;

/// The outcome of a wait for the end of a task.
///
/// ```
/// # use asynq_runtime::{Outcome, prelude::*};
/// #[job(retention = "1h")]
/// async fn double(n: u64) -> JobResult<u64> {
///     Ok(n * 2)
/// }
///
/// # async fn ask(client: &Client) -> Result<(), BoxError> {
/// match double::enqueue(client, 21).await?.wait("30s").await? {
///     Outcome::Done(doubled) => println!("{doubled}"),
///     Outcome::Archived(error) => println!("given up: {error}"),
///     Outcome::StillRunning => println!("it takes longer"),
///     other => println!("{other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome<T> {
    /// The job succeeded and returned this.
    Done(T),
    /// The task was given up and will not run again by itself; this is its last error. The text is empty where a person
    /// archived a task that had not failed.
    Archived(String),
    /// The job revoked the task ([`JobError::revoke`](crate::JobError::revoke)). Only a task that was enqueued with
    /// [`awaited`](crate::job::JobBuilder::awaited) and ran in a Rust worker has this outcome; any other is [`Gone`](Self::Gone) or, if a Go
    /// worker revoked it, [`Deleted`](Self::Deleted).
    Revoked,
    /// The task was archived in place of an attempt, the first or a later one, because the time that `expires` had set was over.
    Expired,
    /// The task was deleted while this program waited for it, or an equal one took its lock while it ran, and it did not succeed:
    /// then its work goes on in that task. Only a task that was enqueued with
    /// [`awaited`](crate::job::JobBuilder::awaited) has this outcome; any other is [`Gone`](Self::Gone).
    Deleted,
    /// The task has ended and left nothing: it succeeded, was revoked or was deleted, and was not kept, or not until now. Ask for
    /// [`awaited`](crate::job::JobBuilder::awaited) or a `retention` to learn more.
    Gone,
    /// The time is over, and the task still waits or runs.
    StillRunning,
}

/// There is no result, because the task did not end with success or has not ended.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotDone(Cow<'static, str>);

debug_as_text!(NotDone);

impl<T> Outcome<T> {
    /// Returns the value that the job returned.
    ///
    /// # Errors
    ///
    /// Every other outcome, as a text for people.
    pub fn done(self) -> Result<T, NotDone> {
        Err(NotDone(match self {
            Self::Done(value) => return Ok(value),
            Self::Archived(error) if error.is_empty() => "the task was archived".into(),
            Self::Archived(error) => format!("the task was archived: {error}").into(),
            Self::Revoked => "the job revoked the task".into(),
            Self::Expired => "the task expired before its next attempt".into(),
            Self::Deleted => "the task was deleted".into(),
            Self::Gone => "the task has ended and left nothing; enqueue it with `.awaited()` or a `retention`".into(),
            Self::StillRunning => "the task has not ended yet".into(),
        }))
    }

    /// Returns whether the task has ended, in whatever way.
    pub fn has_ended(&self) -> bool {
        !matches!(self, Self::StillRunning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_task_that_is_not_done_says_why() {
        assert_eq!(Outcome::Done(7).done(), Ok(7));
        for (outcome, text) in [
            (Outcome::Archived("boom".into()), "the task was archived: boom"),
            (Outcome::Archived(String::new()), "the task was archived"),
            (Outcome::Revoked, "the job revoked the task"),
            (Outcome::Expired, "the task expired before its next attempt"),
            (Outcome::Deleted, "the task was deleted"),
            (Outcome::Gone, "the task has ended and left nothing; enqueue it with `.awaited()` or a `retention`"),
            (Outcome::StillRunning, "the task has not ended yet"),
        ] {
            assert_eq!(outcome.has_ended(), outcome != Outcome::StillRunning);
            assert_eq!(Outcome::<()>::done(outcome).unwrap_err().to_string(), text);
        }
    }
}
