//! Contract: tokens, of which a limited number of tasks hold one at a time, over all programs.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::BrokerError;
use crate::task::TaskId;

/// A smaller difference between two clocks, or between two readings of one clock, comes from rounding and from the time that a call
/// takes to arrive; a larger one means that a clock was set or is ahead.
pub(crate) const SAME_CLOCK: TimeDelta = TimeDelta::seconds(2);

/// Counting semaphores: each scope has tokens, which tasks acquire and release.
#[async_trait::async_trait]
pub trait Semaphores {
    /// Gives the task a token until the time `until`, if fewer than `max` tokens are held; expired tokens do not count. Returns
    /// the end of the token if the task got one. On Redis times are whole seconds, and a token counts until the end of the second of its
    /// `until`.
    ///
    /// `remaining` is the time that the attempt has left. The clock that counts the token may be ahead of the one that gave `until`: it was
    /// set since, or is that of another node of a cluster. Where the attempt ends more than 2 s after `until` by that clock, its token
    /// lasts until then, because it would otherwise end before the attempt, or be given and not count.
    ///
    /// `has_one` says whether this attempt holds one already, which then counts like any other and lasts until the new time.
    /// Otherwise a token of the task was acquired for an earlier attempt, which is over: unlike in asynq it does not count, and the new
    /// one takes its place. A task is known by its id alone, whatever its queue.
    ///
    /// # Errors
    ///
    /// The broker failed; the task may hold the token until it expires.
    async fn acquire_token(
        &self,
        scope: &str,
        max: usize,
        task: &TaskId,
        until: DateTime<Utc>,
        remaining: Duration,
        has_one: bool,
    ) -> Result<Option<DateTime<Utc>>, BrokerError>;

    /// Releases the token that the task holds until `until`, the end that the acquire returned; returns whether the task had it. A
    /// token that a later attempt at the task has acquired stays if it ends at another time; both end at the task's `deadline` where
    /// it has no timeout.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn release_token(&self, scope: &str, task: &TaskId, until: DateTime<Utc>) -> Result<bool, BrokerError>;
}
