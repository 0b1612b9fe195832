//! Reads queues and tasks, and pauses and resumes queues.

mod failures;
mod locks;
mod queues;
mod tasks;

use std::time::Duration;

use redis::Value;

use super::{
    super::{BrokerError, DayStats, Failure, Inspect, LockPage, Page, QueueStats, TaskBrief, TaskEnd},
    RedisBroker,
    keys::{Keys, QUEUES},
    reply,
    script::Call,
};
use crate::task::{GroupName, QueueName, TaskId, TaskInfo, TaskState};

#[async_trait::async_trait]
impl Inspect for RedisBroker {
    async fn queues(&self) -> Result<Vec<QueueName>, BrokerError> {
        // Servers ask for the names as well, and use no other inspector read. So this uses the main connection and
        // opens no other.
        let names = reply::array(self.router.send_one(Call::plain("SMEMBERS").arg(QUEUES)).await?)?;
        let mut names: Vec<QueueName> =
            names.into_iter().filter_map(reply::text).map(|name| QueueName::from_wire(&name)).collect();
        names.sort();
        Ok(names)
    }

    async fn wait_for_queues(&self, limit: Duration) -> Result<(), BrokerError> {
        self.wait_for_other_queues(limit).await
    }

    async fn queue_stats(&self, queue: &QueueName) -> Result<QueueStats, BrokerError> {
        self.stats(queue).await
    }

    async fn tasks(&self, queue: &QueueName, state: TaskState, page: Page) -> Result<Vec<TaskInfo>, BrokerError> {
        self.list(queue, state, None, page, None).await.map(whole)
    }

    async fn briefs(
        &self,
        queue: &QueueName,
        state: TaskState,
        group: Option<&GroupName>,
        page: Page,
    ) -> Result<Vec<TaskBrief>, BrokerError> {
        self.list(queue, state, group, page, Some(TaskBrief::BYTES)).await
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
        let now = self.clock.now().timestamp();
        let call = Call::plain("SET").arg(Keys::new(queue).paused()).arg(now).arg("NX");
        Ok(self.router.send_one(call).await? != Value::Nil)
    }

    async fn resume(&self, queue: &QueueName) -> Result<bool, BrokerError> {
        let call = Call::plain("DEL").arg(Keys::new(queue).paused());
        Ok(reply::number(&self.router.send_one(call).await?) == Some(1))
    }

    async fn group_tasks(
        &self,
        queue: &QueueName,
        group: &GroupName,
        page: Page,
    ) -> Result<Vec<TaskInfo>, BrokerError> {
        self.list(queue, TaskState::Aggregating, Some(group), page, None).await.map(whole)
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

fn whole(found: Vec<TaskBrief>) -> Vec<TaskInfo> {
    found.into_iter().map(|brief| brief.task).collect()
}
