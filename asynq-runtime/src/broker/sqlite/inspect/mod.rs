//! Looks into queues, and pauses them (contract: `broker/inspect.rs`).

mod queues;
mod tasks;

use crate::{
    broker::{BrokerError, Inspect, Page, QueueStats},
    task::{QueueName, TaskId, TaskInfo, TaskState},
};

use super::{
    SqliteBroker,
    order::{Order, Stage},
    sql,
};

#[async_trait::async_trait]
impl Inspect for SqliteBroker {
    async fn queues(&self) -> Result<Vec<QueueName>, BrokerError> {
        self.store.read(queues::names).await
    }

    async fn queue_stats(&self, queue: &QueueName) -> Result<QueueStats, BrokerError> {
        let queue = queue.clone();
        self.store.read(move |view| queues::stats(view, &queue)).await
    }

    async fn tasks(&self, queue: &QueueName, state: TaskState, page: Page) -> Result<Vec<TaskInfo>, BrokerError> {
        let queue = queue.clone();
        self.store.read(move |view| tasks::page(view, &queue, state, page)).await
    }

    async fn task(&self, queue: &QueueName, id: &TaskId) -> Result<Option<TaskInfo>, BrokerError> {
        let (queue, id) = (queue.clone(), id.clone());
        self.store.read(move |view| tasks::one(view, &queue, &id)).await
    }

    async fn pause(&self, queue: &QueueName) -> Result<bool, BrokerError> {
        let queue = queue.clone();
        let order = Order::new(Stage::Settle, 1, move |tx| {
            let changed = tx.view.execute(&sql::INSPECT_PAUSE, rusqlite::params![queue.as_str(), tx.view.now])?;
            Ok(changed == 1)
        });
        self.store.write(order).await
    }

    async fn resume(&self, queue: &QueueName) -> Result<bool, BrokerError> {
        let queue = queue.clone();
        let order = Order::new(Stage::Settle, 1, move |tx| {
            let changed = tx.view.execute(&sql::INSPECT_RESUME, [queue.as_str()])?;
            tx.effects.work |= changed == 1;
            Ok(changed == 1)
        });
        self.store.write(order).await
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
