//! Reads queues and tasks, and pauses and resumes queues.

mod failures;
mod locks;
mod queues;
mod tasks;

use std::time::Duration;

use super::{
    super::{BrokerError, DayStats, Failure, Inspect, LockPage, Page, QueueStats, TaskBrief, TaskEnd},
    RedisBroker,
};
use crate::task::{GroupName, QueueName, TaskId, TaskInfo, TaskState};

#[async_trait::async_trait]
impl Inspect for RedisBroker {
    async fn queues(&self) -> Result<Vec<QueueName>, BrokerError> {
        self.all_queues().await
    }

    async fn wait_for_queues(&self, limit: Duration) -> Result<(), BrokerError> {
        self.wait_for_other_queues(limit).await
    }

    async fn queue_stats(&self, queue: &QueueName) -> Result<QueueStats, BrokerError> {
        self.stats(queue).await
    }

    async fn tasks(&self, queue: &QueueName, state: TaskState, page: Page) -> Result<Vec<TaskInfo>, BrokerError> {
        self.list(queue, state, page).await
    }

    async fn briefs(
        &self,
        queue: &QueueName,
        state: TaskState,
        group: Option<&GroupName>,
        page: Page,
    ) -> Result<Vec<TaskBrief>, BrokerError> {
        match group {
            Some(group) => self.list_group_briefs(queue, group, page, Some(TaskBrief::BYTES)).await,
            None => self.list_briefs(queue, state, page, Some(TaskBrief::BYTES)).await,
        }
    }

    async fn task(&self, queue: &QueueName, id: &TaskId) -> Result<Option<TaskInfo>, BrokerError> {
        self.find(queue, id).await
    }

    async fn queues_of(&self, id: &TaskId) -> Result<Vec<QueueName>, BrokerError> {
        self.find_queues_of(id).await
    }

    async fn wait_for_end(&self, queue: &QueueName, id: &TaskId, limit: Duration) -> Result<TaskEnd, BrokerError> {
        self.wait_for_task_end(queue, id, limit).await
    }

    async fn wait_until_idle(&self, queues: &[QueueName], limit: Duration) -> Result<bool, BrokerError> {
        self.wait_for_idle_queues(queues, limit).await
    }

    async fn pause(&self, queue: &QueueName) -> Result<bool, BrokerError> {
        self.set_paused(queue).await
    }

    async fn resume(&self, queue: &QueueName) -> Result<bool, BrokerError> {
        self.clear_paused(queue).await
    }

    async fn group_tasks(
        &self,
        queue: &QueueName,
        group: &GroupName,
        page: Page,
    ) -> Result<Vec<TaskInfo>, BrokerError> {
        self.list_group(queue, group, page).await
    }

    async fn locks(&self, queue: &QueueName, after: Option<&str>) -> Result<LockPage, BrokerError> {
        self.list_locks(queue, after).await
    }

    async fn failures(&self, queue: &QueueName, id: &TaskId) -> Result<Vec<Failure>, BrokerError> {
        self.last_failures(queue, id).await
    }

    async fn history(&self, queue: &QueueName, days: usize) -> Result<Vec<DayStats>, BrokerError> {
        self.days(queue, days).await
    }

    async fn memory_usage(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        self.estimate_memory(queue).await
    }
}
