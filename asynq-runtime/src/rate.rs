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

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use chrono::{DateTime, Utc};
use tokio::{runtime::Handle, task::JoinSet};

use crate::{
    broker::{Broker, BrokerError},
    job::JobContext,
    task::TaskId,
};

/// Tokens of one scope, of which at most `max` are out at a time. The broker that a task comes from keeps them. Cheap to
/// clone; keep one in the server's states.
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
/// ```
#[derive(Clone)]
pub struct Semaphore(Arc<Inner>);

struct Inner {
    scope: String,
    max: usize,
    /// Releases of tokens that were dropped; they end with the last clone.
    returning: Mutex<JoinSet<()>>,
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
        Ok(Self(Arc::new(Inner { scope, max, returning: Mutex::default() })))
    }

    /// Takes a token for the attempt that `ctx` belongs to, if one is free; does not wait. The token is out until it is released,
    /// at the latest until the attempt's deadline, so that a worker that dies blocks no other for ever. The next attempt at its task
    /// takes its place, unless both end at the task's own `deadline`: then the token is out until that. As in asynq a token has the id of
    /// its task alone, so give tasks of one scope different ids, also in different queues.
    ///
    /// Returns `None` if `max` tokens are out. Return [`JobError::snooze`](crate::JobError::snooze) to try again later, or an
    /// error to spend a retry. A task has at most one token of a scope.
    ///
    /// # Errors
    ///
    /// The attempt has no deadline, the context is [detached](JobContext::detached), or the broker failed.
    pub async fn acquire(&self, ctx: &JobContext) -> Result<Option<Token>, SemaphoreError> {
        let id = ctx.id().clone();
        let Some(until) = ctx.deadline() else { return Err(SemaphoreError::NoDeadline { id }) };
        let broker = Arc::clone(ctx.client()?.broker());
        let got = broker.acquire_token(&self.0.scope, self.0.max, &id, until).await?;
        Ok(got.then(|| Token { origin: Some((self.clone(), broker)), id, until }))
    }

    /// Returns the name of the scope.
    pub fn scope(&self) -> &str {
        &self.0.scope
    }

    /// Returns how many tokens are out at most.
    pub fn max(&self) -> usize {
        self.0.max
    }
}

/// A token of a [`Semaphore`], for one attempt.
///
/// A token that is dropped, at the end of the job or because the attempt failed by `?`, panicked, was cancelled or timed out, is released
/// in the background: once, as long as a clone of the semaphore lives (in the server's states, one does). Where that fails, or
/// the process dies, the token is out until the attempt's deadline. [`release`](Self::release) waits for the answer.
#[must_use = "a token that is dropped goes back at once"]
pub struct Token {
    /// The semaphore of the token, and the broker that keeps it; `None` once it was released.
    origin: Option<(Semaphore, Arc<dyn Broker>)>,
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
        let Some((semaphore, broker)) = self.origin.clone() else { return Ok(()) };
        let scope = &semaphore.0.scope;
        let had_one = broker.release_token(scope, &self.id, self.until).await?;
        self.origin = None;
        if had_one { Ok(()) } else { Err(SemaphoreError::Gone { scope: scope.clone(), id: self.id.clone() }) }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let (Some((semaphore, broker)), Ok(runtime)) = (self.origin.take(), Handle::try_current()) else { return };
        let scope = semaphore.0.scope.clone();
        let (id, until) = (self.id.clone(), self.until);
        let mut returning = semaphore.0.returning.lock().unwrap_or_else(PoisonError::into_inner);
        while returning.try_join_next().is_some() {}
        let release = async move {
            if let Err(error) = broker.release_token(&scope, &id, until).await {
                tracing::warn!(%id, scope, %error, "a token was not released; it ends with its attempt's deadline");
            }
        };
        returning.spawn_on(release, &runtime);
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("scope", &self.0.scope).field("max", &self.0.max).finish_non_exhaustive()
    }
}

partial_debug!(Token { id, until, .. });
