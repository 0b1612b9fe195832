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
//!     // A broker that cannot be asked is not a failure of the job: it spends no retry.
//!     let Some(token) = partner.try_acquire(ctx).await.map_err(JobError::not_a_failure)? else {
//!         return Err(JobError::snooze("30s")); // a snooze spends none either
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
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
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
///     match partner.try_acquire(ctx).await.map_err(JobError::not_a_failure)? {
///         Some(_token) => Ok(()), // it goes back at the end of the attempt
///         None => Err(JobError::snooze("30s")),
///     }
/// }
///
/// /// Runs twice at a time for each customer.
/// #[job(timeout = "5m")]
/// async fn export(ctx: &JobContext, customer: u64) -> JobResult {
///     let exports = Semaphore::new(format!("export:{customer}"), 2)?;
///     match exports.try_acquire(ctx).await.map_err(JobError::not_a_failure)? {
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
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SemaphoreError {
    /// The scope has no name.
    #[error("the scope of a semaphore must not be blank")]
    BlankScope,
    /// The semaphore has no tokens: no caller could ever have one.
    #[error("a semaphore must have at least 1 token")]
    NoTokens,
    /// The context belongs to no attempt with an end, as that of an `on_archive` function: the token would be out for ever.
    #[error(
        "task `{id}` has no attempt here whose end would give its token back, as in an `on_archive` function: enqueue a job that \
         takes the token"
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

debug_as_text!(SemaphoreError);

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
    /// takes its place, unless a Go worker makes it. As in asynq a token has the id of its task alone, so give tasks of one scope
    /// different ids, also in different queues. Where a job has a `deadline` and no timeout, an attempt that has lost its task and
    /// still runs also releases the token of the next one, because the broker tells them apart by their ends, which are the same.
    ///
    /// Returns `None` if `max` tokens are out. Return [`JobError::snooze`](crate::JobError::snooze) to try again later, or an
    /// error to spend a retry. A token that was released is unused until the next of these tasks comes back, so choose a snooze
    /// of about the time for which a job holds its token. A task has at most one token of a scope: if an attempt acquires it again, it
    /// goes back with the last [`Token`]. If the future is dropped, or the answer is lost, a token that was taken meanwhile is
    /// released in the background, and another call of the attempt waits for that. Such a token stays where the broker gave it another
    /// end than the attempt's deadline, because the clocks differ or the call took more than 2 s to arrive: until that end, or the next
    /// attempt at the task. A future that is kept and no longer polled holds up the other calls of its attempt until it is dropped.
    ///
    /// # Errors
    ///
    /// The context is that of an `on_archive` function, which belongs to no attempt; it is [detached](JobContext::detached); or the
    /// broker failed, the one error that an attempt meets. On a Redis Cluster the tokens of a scope lie on one master, which may be
    /// away while the queue of the job is not: with [`JobError::not_a_failure`](crate::JobError::not_a_failure) such an error spends
    /// no retry, but at each 26th time in a row.
    #[doc(alias = "acquire")]
    pub async fn try_acquire(&self, ctx: &JobContext) -> Result<Option<Token>, SemaphoreError> {
        let id = ctx.id().clone();
        let broker = Arc::clone(ctx.client()?.broker());
        let Some(until) = ctx.deadline() else { return Err(SemaphoreError::NoDeadline { id }) };
        let tokens = ctx.extension_or_default::<AttemptTokens>();
        let make = || {
            let scope = Arc::clone(&self.scope);
            Arc::new(OwnToken {
                scope,
                id,
                until,
                broker,
                holders: AtomicUsize::default(),
                kept_until: Default::default(),
            })
        };
        let own = Arc::clone(tokens.by_scope.lock().entry(Arc::clone(&self.scope)).or_insert_with(make));
        let mut kept_until = own.kept_until.lock().await;
        // The release of a token that was dropped may not have begun, and would count that token or take the new one.
        if kept_until.is_some() && own.holders.load(SeqCst) == 0 {
            own.release(&mut kept_until).await?;
        }
        let before = *kept_until;
        // Without an answer the end is not known where the clocks differ or the call arrived late: such a token stays out until it ends,
        // because a release of any end could take the token of a later attempt.
        *kept_until = before.or(Some(until));
        // Made before the answer, because the call may have taken a token although its caller leaves or its answer is lost.
        own.holders.fetch_add(1, SeqCst);
        let mut token = Token { own: Some(Arc::clone(&own)), until, runtime: Handle::try_current().ok() };
        let call = own.broker.acquire_token(&own.scope, self.max, &own.id, until, ctx.remaining(), before.is_some());
        let answer = call.await;
        match &answer {
            Ok(Some(end)) => {
                *kept_until = Some(*end);
                token.until = *end;
            }
            Err(error) if error.is_ambiguous() => {}
            Ok(None) | Err(_) => {
                *kept_until = before;
                token.forget();
            }
        }
        Ok(answer?.map(|_| token))
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

/// The tokens of one attempt.
#[derive(Default)]
struct AttemptTokens {
    by_scope: Mutex<HashMap<Arc<str>, Arc<OwnToken>>>,
}

/// The one token of a scope that an attempt can have.
struct OwnToken {
    scope: Arc<str>,
    id: TaskId,
    until: DateTime<Utc>,
    /// The broker that keeps the token.
    broker: Arc<dyn Broker>,
    /// How many values of [`Token`] stand for it, also while the broker is asked for it.
    holders: AtomicUsize,
    /// The end by which the broker knows it, if it may keep it. The lock is held during each call, so that a late release cannot take the
    /// token of a later acquire: for the broker both are the same.
    kept_until: tokio::sync::Mutex<Option<DateTime<Utc>>>,
}

impl OwnToken {
    /// Releases the token of the attempt; returns whether the attempt had it.
    async fn release(&self, kept_until: &mut Option<DateTime<Utc>>) -> Result<bool, BrokerError> {
        let had_one = self.broker.release_token(&self.scope, &self.id, kept_until.unwrap_or(self.until)).await?;
        *kept_until = None;
        Ok(had_one)
    }
}

/// A token of a [`Semaphore`], for one attempt.
///
/// A token that is dropped, at the end of the job or because the attempt failed by `?`, panicked, was cancelled or timed out, is released
/// in the background, once, also if a thread without a runtime drops it. Where that fails, or the process dies, the token is out until
/// the attempt's deadline, and for as much longer as the broker's clock is set back meanwhile.
/// [`release`](Self::release) waits for the answer.
#[must_use = "a token that is dropped goes back at once"]
pub struct Token {
    /// `None` once the token was released.
    own: Option<Arc<OwnToken>>,
    until: DateTime<Utc>,
    /// Where a token is released that is dropped on a thread without a runtime.
    runtime: Option<Handle>,
}

impl Token {
    /// Takes this value off the holders of the token, without a release.
    fn forget(&mut self) -> Option<Arc<OwnToken>> {
        let own = self.own.take()?;
        own.holders.fetch_sub(1, SeqCst);
        Some(own)
    }

    /// Returns when the token is free again by itself: at the attempt's deadline, or later where the broker's clock is ahead of the one
    /// that gave that deadline.
    pub fn until(&self) -> DateTime<Utc> {
        self.until
    }

    /// Releases the token, unless the attempt has another value for the same one. An error says nothing about the work that was
    /// done with it: a job that hands it on by `?` fails, and does that work again.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError::Gone`], or the broker failed: then the release is tried once more, as for a token that is dropped.
    pub async fn release(mut self) -> Result<(), SemaphoreError> {
        let Some(own) = self.own.clone() else { return Ok(()) };
        let mut kept_until = own.kept_until.lock().await;
        let has_another = own.holders.load(SeqCst) > 1;
        let had_one = has_another || own.release(&mut kept_until).await?;
        self.forget();
        if had_one { Ok(()) } else { Err(SemaphoreError::Gone { scope: own.scope.to_string(), id: own.id.clone() }) }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let Some(own) = self.forget() else { return };
        let Some(runtime) = Handle::try_current().ok().or_else(|| self.runtime.take()) else { return };
        // A task of its own: the token, its semaphore and its job may be gone before the broker answers.
        runtime.spawn(async move {
            let mut kept_until = own.kept_until.lock().await;
            // A later acquire of the attempt has released it, or has it now.
            if kept_until.is_none() || own.holders.load(SeqCst) > 0 {
                return;
            }
            if let Err(error) = own.release(&mut kept_until).await {
                let OwnToken { scope, id, .. } = &*own;
                log!(warn, %id, %scope, %error, "a token was not released; it ends with its attempt's deadline");
            }
        });
    }
}

partial_debug!(OwnToken { scope, id, until, .. });
partial_debug!(Token { until, .. });
