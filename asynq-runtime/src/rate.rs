//! Limits how many tasks do something at a time, in all programs together: asynq's `x/rate`.
//!
//! Concurrency settings limit one server. A [`Semaphore`] limits all of them together: of the tasks that ask for a token of one
//! scope, at most so many hold one at a time, wherever they run. On Redis, Go programs and Rust programs share the tokens of a
//! scope.
//!
//! ```no_run
//! use asynq_runtime::{prelude::*, rate::Semaphore};
//!
//! #[job(timeout = "5m")]
//! async fn call_partner(ctx: &JobContext, partner: State<Semaphore>, order: u64) -> JobResult {
//!     let Some(token) = partner.acquire(ctx).await? else {
//!         return Err(JobError::snooze("30s")); // no failure, no retry spent
//!     };
//!     println!("order {order}");
//!     drop(token); // goes back in the background: a broker that is away does not make this a failure
//!     Ok(())
//! }
//!
//! async fn setup(app: App) -> Result<App, BoxError> {
//!     Ok(app.state(Semaphore::new("partner", 5)?))
//! }
//! # fn main() {}
//! ```

use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::runtime::Handle;

use crate::{
    broker::{Broker, BrokerError},
    job::JobContext,
    task::TaskId,
};

/// Tokens of one scope, of which at most `max` are out at a time. The broker that a task comes from keeps them. Cheap to
/// make and to clone: keep one in the server's states, or make one in the job where the scope depends on its arguments.
///
/// ```
/// use asynq_runtime::{prelude::*, rate::Semaphore};
///
/// #[job(timeout = "5m")]
/// async fn call_partner(ctx: &JobContext, partner: State<Semaphore>) -> JobResult {
///     match partner.acquire(ctx).await? {
///         Some(_token) => Ok(()), // it goes back at the end of the attempt
///         None => Err(JobError::snooze("30s")),
///     }
/// }
///
/// /// Runs twice at a time for each customer.
/// #[job(timeout = "5m")]
/// async fn export(ctx: &JobContext, customer: u64) -> JobResult {
///     match Semaphore::new(format!("export:{customer}"), 2)?.acquire(ctx).await? {
///         Some(_token) => Ok(()),
///         None => Err(JobError::snooze("30s")),
///     }
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Semaphore {
    scope: Arc<str>,
    max: usize,
}

/// Why a token cannot be acquired or released.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SemaphoreError {
    /// The scope has no name.
    #[error("the scope of a semaphore must not be blank")]
    BlankScope,
    /// The semaphore has no tokens: no caller could ever have one.
    #[error("a semaphore must have at least 1 token")]
    NoTokens,
    /// The attempt may take for ever, and its token would be out as long.
    #[error(
        "task `{id}` has neither a timeout nor a deadline, so its token would never come back: give it a `timeout`"
    )]
    NoDeadline {
        /// The task.
        id: TaskId,
    },
    /// The token was gone when it was released: its time was over, or another program released it.
    #[error("task `{id}` had lost its token of scope `{scope}`; the limit may have been exceeded meanwhile")]
    Gone {
        /// The scope.
        scope: String,
        /// The task.
        id: TaskId,
    },
    /// The broker failed. A token may be out until the attempt's deadline.
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

impl Semaphore {
    /// Returns the tokens of `scope`, of which at most `max` are out. Every program should give the same `max`: each applies only
    /// its own.
    ///
    /// # Errors
    ///
    /// The scope is blank, or `max` is 0.
    pub fn new(scope: impl Into<String>, max: usize) -> Result<Self, SemaphoreError> {
        let scope = scope.into();
        if scope.trim().is_empty() {
            return Err(SemaphoreError::BlankScope);
        }
        if max == 0 {
            return Err(SemaphoreError::NoTokens);
        }
        Ok(Self { scope: scope.into(), max })
    }

    /// Takes a token for the attempt that `ctx` belongs to, if one is free; does not wait. The token is out until it is released,
    /// at the latest until the attempt's deadline, so that a worker that dies blocks no other for ever. The next attempt at its task
    /// takes its place, unless both end at the task's own `deadline`: then the token is out until that. As in asynq a token has the id of
    /// its task alone, so give tasks of one scope different ids, also in different queues.
    ///
    /// Returns `None` if `max` tokens are out. Return [`JobError::snooze`](crate::JobError::snooze) to try again later, or an
    /// error to spend a retry. A token that was released is unused until the next of these tasks comes back, so choose a snooze
    /// of about the time for which a job holds its token. A task has at most one token of a scope. If the future is dropped, or the
    /// answer is lost, a token that was taken meanwhile is released in the background.
    ///
    /// # Errors
    ///
    /// The attempt has no deadline, the context is [detached](JobContext::detached), or the broker failed.
    pub async fn acquire(&self, ctx: &JobContext) -> Result<Option<Token>, SemaphoreError> {
        let id = ctx.id().clone();
        let broker = Arc::clone(ctx.client()?.broker());
        let Some(until) = ctx.deadline() else { return Err(SemaphoreError::NoDeadline { id }) };
        // Made before the answer, because the call may have taken a token although its caller leaves or its answer is lost.
        let mut token = Token { origin: Some((Arc::clone(&self.scope), Arc::clone(&broker))), id, until };
        let given = broker.acquire_token(&self.scope, self.max, &token.id, until).await?;
        if !given {
            token.origin = None;
        }
        Ok(given.then_some(token))
    }

    /// Returns the name of the scope.
    pub fn scope(&self) -> &str {
        &self.scope
    }

    /// Returns how many tokens are out at most.
    pub fn max(&self) -> usize {
        self.max
    }
}

/// A token of a [`Semaphore`], for one attempt.
///
/// A token that is dropped, at the end of the job or because the attempt failed by `?`, panicked, was cancelled or timed out, is released
/// in the background, once. Where that fails, or the process dies, the token is out until the attempt's deadline, and for as much
/// longer as the broker's clock is set back meanwhile.
/// [`release`](Self::release) waits for the answer.
#[must_use = "a token that is dropped goes back at once"]
pub struct Token {
    /// The scope of the token, and the broker that keeps it; `None` once it was released.
    origin: Option<(Arc<str>, Arc<dyn Broker>)>,
    id: TaskId,
    until: DateTime<Utc>,
}

impl Token {
    /// Returns when the token is free again by itself: the attempt's deadline.
    pub fn until(&self) -> DateTime<Utc> {
        self.until
    }

    /// Releases the token. An error says nothing about the work that was done with it: a job that hands it on by `?` fails, and does
    /// that work again.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError::Gone`], or the broker failed: then the release is tried once more, as for a token that is dropped.
    pub async fn release(mut self) -> Result<(), SemaphoreError> {
        let Some((scope, broker)) = self.origin.clone() else { return Ok(()) };
        let had_one = broker.release_token(&scope, &self.id, self.until).await?;
        self.origin = None;
        if had_one { Ok(()) } else { Err(SemaphoreError::Gone { scope: scope.to_string(), id: self.id.clone() }) }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let (Some((scope, broker)), Ok(runtime)) = (self.origin.take(), Handle::try_current()) else { return };
        let (id, until) = (self.id.clone(), self.until);
        // A task of its own: the token, its semaphore and its job may be gone before the broker answers.
        runtime.spawn(async move {
            if let Err(error) = broker.release_token(&scope, &id, until).await {
                tracing::warn!(%id, %scope, %error, "a token was not released; it ends with its attempt's deadline");
            }
        });
    }
}

partial_debug!(Token { id, until, .. });
