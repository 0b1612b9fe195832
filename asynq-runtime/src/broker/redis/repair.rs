//! Repairs on Redis (PROTOCOL §6.3–6.5).

use super::RedisBroker;
use crate::{
    broker::{
        BrokerError, BrokerErrorKind, BulkAction, BulkSlice, Changed, Chosen, EditError, MoveError, PayloadEdit,
        QueueDeleted, Repair,
    },
    task::{QueueName, TaskId},
};

fn later() -> BrokerError {
    BrokerError::new(BrokerErrorKind::Unexpected, "not there yet")
}

#[async_trait::async_trait]
impl Repair for RedisBroker {
    async fn run_task(&self, _: &QueueName, _: &TaskId) -> Result<Changed, BrokerError> {
        Err(later())
    }
    async fn archive_task(&self, _: &QueueName, _: &TaskId) -> Result<Changed, BrokerError> {
        Err(later())
    }
    async fn delete_task(&self, _: &QueueName, _: &TaskId) -> Result<Changed, BrokerError> {
        Err(later())
    }
    async fn move_task(&self, _: &QueueName, _: &TaskId, _: &QueueName) -> Result<Changed, MoveError> {
        Err(later().into())
    }
    async fn edit_payload(&self, _: &QueueName, _: &TaskId, _: &PayloadEdit) -> Result<Changed, EditError> {
        Err(later().into())
    }
    async fn end_orphan(&self, _: &QueueName, _: &TaskId, _: &str) -> Result<Changed, BrokerError> {
        Err(later())
    }
    async fn change_some(&self, _: &QueueName, _: &Chosen, _: BulkAction, _: usize) -> Result<BulkSlice, BrokerError> {
        Err(later())
    }
    async fn delete_queue(&self, _: &QueueName) -> Result<QueueDeleted, BrokerError> {
        Err(later())
    }
}
