//! Tokens on Redis: asynq's own zset per scope, which lies outside every queue.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{
    RedisBroker, keys, reply,
    script::{ACQUIRE, RELEASE_TOKEN},
    span::whole_seconds,
};
use crate::{
    broker::{BrokerError, SAME_CLOCK, Semaphores},
    task::TaskId,
};

#[async_trait::async_trait]
impl Semaphores for RedisBroker {
    async fn acquire_token(
        &self,
        scope: &str,
        max: usize,
        task: &TaskId,
        until: DateTime<Utc>,
        remaining: Duration,
        has_one: bool,
    ) -> Result<Option<DateTime<Utc>>, BrokerError> {
        let call = self
            .timed(&ACQUIRE, &[keys::semaphore(scope)])
            .arg(max)
            .arg(until.timestamp())
            .arg(task.as_str())
            .arg(i32::from(has_one))
            .arg(whole_seconds(remaining))
            .arg(SAME_CLOCK.num_seconds());
        match reply::number(&self.router.send_one(call).await?) {
            Some(0) => Ok(None),
            Some(end) if end == until.timestamp() => Ok(Some(until)),
            Some(end) => Ok(Some(DateTime::from_timestamp(end, 0).unwrap_or(until))),
            None => Err(reply::unexpected("no end of a token")),
        }
    }

    async fn release_token(&self, scope: &str, task: &TaskId, until: DateTime<Utc>) -> Result<bool, BrokerError> {
        let call = RELEASE_TOKEN.on(&[keys::semaphore(scope)]).arg(until.timestamp()).arg(task.as_str());
        match reply::number(&self.router.send_one(call).await?) {
            Some(0) => Ok(false),
            Some(1) => Ok(true),
            _ => Err(reply::unexpected("neither 0 nor 1")),
        }
    }
}
