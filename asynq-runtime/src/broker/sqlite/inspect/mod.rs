//! Looks into queues, and pauses them (contract: `broker/inspect.rs`).

mod queues;
mod tasks;

use std::time::Duration;

pub(super) use self::queues::{count_of, is_idle};
use crate::{
    broker::{
        BrokerError, DayStats, Failure, Inspect, LockPage, Page, QueueStats, TaskBrief, TaskEnd, task_end::wait_for_end,
    },
    task::{GroupName, QueueName, TaskId, TaskInfo, TaskState},
};

use super::{SqliteBroker, position, sql, tx::View};

#[async_trait::async_trait]
impl Inspect for SqliteBroker {
    async fn queues(&self) -> Result<Vec<QueueName>, BrokerError> {
        self.store.read(queues::names).await
    }

    async fn knows(&self, queue: &QueueName) -> Result<bool, BrokerError> {
        let queue = queue.clone();
        self.store.read(move |view| queues::is_known(view, &queue)).await
    }

    async fn queue_stats(&self, queue: &QueueName) -> Result<QueueStats, BrokerError> {
        let queue = queue.clone();
        self.store.read(move |view| queues::stats(view, &queue)).await
    }

    async fn list(
        &self,
        queue: &QueueName,
        state: TaskState,
        group: Option<&GroupName>,
        page: Page,
        most: Option<usize>,
    ) -> Result<Vec<TaskBrief>, BrokerError> {
        let (mut found, mut offset, end) = (Vec::new(), page.offset(), page.offset().saturating_add(page.size));
        loop {
            let (queue, group, at) = (queue.clone(), group.cloned(), (end - offset, offset));
            let slice = move |view: &View<'_>| tasks::page(view, &queue, state, group.as_ref(), at, most);
            let mut slice = self.store.read(slice).await?;
            found.append(&mut slice.tasks);
            offset += slice.looked_at;
            if !slice.is_cut_short {
                return Ok(found);
            }
        }
    }

    async fn task(&self, queue: &QueueName, id: &TaskId) -> Result<Option<TaskInfo>, BrokerError> {
        let (queue, id) = (queue.clone(), id.clone());
        self.store.read(move |view| tasks::one(view, &queue, &id)).await
    }

    async fn queues_of(&self, id: &TaskId) -> Result<Vec<QueueName>, BrokerError> {
        let id = id.clone();
        self.store.read(move |view| queues::of_task(view, &id)).await
    }

    async fn wait_for_end(&self, queue: &QueueName, id: &TaskId, limit: Duration) -> Result<TaskEnd, BrokerError> {
        wait_for_end(self.begin_wait(queue, id), queue, id, limit).await
    }

    async fn wait_until_idle(&self, queues: &[QueueName], limit: Duration) -> Result<bool, BrokerError> {
        self.wait_for_idle_queues(queues, limit).await
    }

    async fn pause(&self, queue: &QueueName) -> Result<bool, BrokerError> {
        let queue = queue.clone();
        self.change(move |tx| {
            let changed = tx.view.execute(&sql::inspect::PAUSE, rusqlite::params![queue.as_str(), tx.view.now])?;
            Ok(changed == 1)
        })
        .await
    }

    async fn resume(&self, queue: &QueueName) -> Result<bool, BrokerError> {
        let queue = queue.clone();
        self.change(move |tx| {
            let changed = tx.view.execute(&sql::inspect::RESUME, [queue.as_str()])?;
            tx.effects.work |= changed == 1;
            Ok(changed == 1)
        })
        .await
    }

    async fn locks(&self, queue: &QueueName, after: Option<&str>) -> Result<LockPage, BrokerError> {
        let queue = queue.clone();
        let after = position::read(after.unwrap_or_default()).ok_or_else(LockPage::nowhere)?;
        self.store.read(move |view| queues::locks(view, &queue, &after)).await
    }

    async fn failures(&self, queue: &QueueName, id: &TaskId) -> Result<Vec<Failure>, BrokerError> {
        let (queue, id) = (queue.clone(), id.clone());
        self.store.read(move |view| tasks::failures(view, &queue, &id)).await
    }

    async fn history(&self, queue: &QueueName, days: usize) -> Result<Vec<DayStats>, BrokerError> {
        let queue = queue.clone();
        self.store.read(move |view| queues::history(view, &queue, days)).await
    }

    async fn memory_usage(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        let queue = queue.clone();
        self.store.read(move |view| queues::weight(view, &queue)).await
    }
}
