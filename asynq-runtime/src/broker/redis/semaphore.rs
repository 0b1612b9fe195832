//! Tokens on Redis (PROTOCOL §13).

use chrono::{DateTime, Utc};

use super::RedisBroker;
use crate::{
    broker::{BrokerError, BrokerErrorKind, Semaphores},
    task::TaskId,
};

#[async_trait::async_trait]
impl Semaphores for RedisBroker {
    async fn acquire_token(&self, _: &str, _: usize, _: &TaskId, _: DateTime<Utc>) -> Result<bool, BrokerError> {
        Err(BrokerError::new(BrokerErrorKind::Unexpected, "not there yet"))
    }
    async fn release_token(&self, _: &str, _: &TaskId) -> Result<bool, BrokerError> {
        Err(BrokerError::new(BrokerErrorKind::Unexpected, "not there yet"))
    }
}
