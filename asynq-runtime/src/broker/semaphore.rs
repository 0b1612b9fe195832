//! Contract: tokens that at most so many tasks hold at a time, over all programs.

use chrono::{DateTime, Utc};

use super::BrokerError;
use crate::task::TaskId;

/// Gives out tokens of a scope.
#[async_trait::async_trait]
pub trait Semaphores {
    /// Gives the task a token until that moment, if fewer than `max` are out; tokens whose time is over do not count. On
    /// Redis times are whole seconds: a token counts until the second of its time is over. Returns whether it got one. As
    /// in asynq, a task that has one asks like any other: where one is left it keeps its own until the new moment, where
    /// none is left it gets none and keeps what it has.
    ///
    /// # Errors
    ///
    /// The broker failed; the token may be out until its time is over.
    async fn acquire_token(
        &self,
        scope: &str,
        max: usize,
        task: &TaskId,
        until: DateTime<Utc>,
    ) -> Result<bool, BrokerError>;

    /// Takes the task's token back; returns whether it had one.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn release_token(&self, scope: &str, task: &TaskId) -> Result<bool, BrokerError>;
}
