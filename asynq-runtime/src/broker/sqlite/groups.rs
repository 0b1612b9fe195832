//! Groups on SQLite (PROTOCOL §5.12–5.15).

use super::SqliteBroker;
use crate::{
    broker::{BrokerError, BrokerErrorKind, GroupRules, GroupStats, Groups, SetError, SetOutcome, TaskSet},
    task::{GroupName, QueueName},
};

fn later() -> BrokerError {
    BrokerError::new(BrokerErrorKind::Unexpected, "not there yet")
}

#[async_trait::async_trait]
impl Groups for SqliteBroker {
    async fn groups(&self, _: &QueueName, _: Option<&GroupName>, _: usize) -> Result<Vec<GroupStats>, BrokerError> {
        Err(later())
    }
    async fn claim_set(&self, _: &QueueName, _: &GroupName, _: &GroupRules) -> Result<Option<TaskSet>, BrokerError> {
        Err(later())
    }
    async fn finish_set(&self, _: &TaskSet, _: &SetOutcome) -> Result<(), SetError> {
        Err(later().into())
    }
    async fn release_set(&self, _: &TaskSet) -> Result<(), BrokerError> {
        Err(later())
    }
    async fn reclaim_sets(&self, _: &QueueName) -> Result<usize, BrokerError> {
        Err(later())
    }
}
