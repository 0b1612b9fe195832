//! Reads queues and tasks without changing them, but for the pause.

mod queues;
mod tasks;

use super::{
    super::{BrokerError, Inspect, Page, QueueStats},
    RedisBroker,
};
use crate::task::{QueueName, TaskId, TaskInfo, TaskState};

#[async_trait::async_trait]
impl Inspect for RedisBroker {
    async fn queues(&self) -> Result<Vec<QueueName>, BrokerError> {
        self.all_queues().await
    }

    async fn queue_stats(&self, queue: &QueueName) -> Result<QueueStats, BrokerError> {
        self.stats(queue).await
    }

    async fn tasks(&self, queue: &QueueName, state: TaskState, page: Page) -> Result<Vec<TaskInfo>, BrokerError> {
        self.list(queue, state, page).await
    }

    async fn task(&self, queue: &QueueName, id: &TaskId) -> Result<Option<TaskInfo>, BrokerError> {
        self.find(queue, id).await
    }

    async fn pause(&self, queue: &QueueName) -> Result<bool, BrokerError> {
        self.set_paused(queue).await
    }

    async fn resume(&self, queue: &QueueName) -> Result<bool, BrokerError> {
        self.clear_paused(queue).await
    }

    async fn group_tasks(
        &self,
        _: &QueueName,
        _: &crate::task::GroupName,
        _: Page,
    ) -> Result<Vec<TaskInfo>, BrokerError> {
        Err(later())
    }

    async fn failures(&self, _: &QueueName, _: &TaskId) -> Result<Vec<crate::broker::Failure>, BrokerError> {
        Err(later())
    }

    async fn history(&self, _: &QueueName, _: usize) -> Result<Vec<crate::broker::DayStats>, BrokerError> {
        Err(later())
    }

    async fn memory_usage(&self, _: &QueueName) -> Result<u64, BrokerError> {
        Err(later())
    }
}

fn later() -> BrokerError {
    BrokerError::new(crate::broker::BrokerErrorKind::Unexpected, "not there yet")
}
