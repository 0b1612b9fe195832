//! Tokens on Redis: asynq's own zset per scope, which lies outside every queue.

use chrono::{DateTime, Utc};

use super::{
    RedisBroker, keys, reply,
    script::{ACQUIRE, Call, RELEASE_TOKEN},
};
use crate::{
    broker::{BrokerError, Semaphores},
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
        has_one: bool,
    ) -> Result<bool, BrokerError> {
        let call = ACQUIRE
            .on(&[keys::semaphore(scope)])
            .arg(self.clock.argument())
            .arg(max)
            .arg(until.timestamp())
            .arg(task.as_str())
            .arg(i32::from(has_one));
        self.ask_whether(call).await
    }

    async fn release_token(&self, scope: &str, task: &TaskId, until: DateTime<Utc>) -> Result<bool, BrokerError> {
        self.ask_whether(RELEASE_TOKEN.on(&[keys::semaphore(scope)]).arg(until.timestamp()).arg(task.as_str())).await
    }
}

impl RedisBroker {
    async fn ask_whether(&self, call: Call) -> Result<bool, BrokerError> {
        match reply::number(&self.router.send_one(call).await?) {
            Some(0) => Ok(false),
            Some(1) => Ok(true),
            _ => Err(reply::unexpected("neither 0 nor 1")),
        }
    }
}
