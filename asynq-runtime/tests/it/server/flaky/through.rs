//! Methods that the flaky broker passes on, unless it is dead or that call hangs.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use async_trait::async_trait;
use asynq_runtime::{
    TaskId, TaskInfo, TaskState,
    broker::{
        BrokerError, BulkAction, BulkSlice, Candidate, Changed, Chosen, DayStats, Diagnose, EditError, EntryId,
        EntryPlan, EntryState, Examination, Failure, GroupPage, GroupRules, GroupStats, GroupStep, Groups, Inspect,
        JoinShapes, Lead, LockPage, MoveError, NewShape, Node, Page, PayloadEdit, Planned, QueueDeleted, QueueStats,
        Repair, RipeGroups, Schedules, Semaphores, SetError, SetOutcome, Shapes, StoredShapes, TaskEnd, TaskSet, Tick,
        Ticked,
    },
    task::{GroupName, QueueName, SchedulerEnqueueEvent, SchedulerEntry},
};
use bytes::Bytes;
use chrono::{DateTime, Utc};

use super::{Flaky, counts_down, down};

#[async_trait]
impl Inspect for Flaky {
    async fn queues(&self) -> Result<Vec<QueueName>, BrokerError> {
        self.pulse("queues").await;
        self.inner.queues().await
    }

    async fn queue_stats(&self, queue: &QueueName) -> Result<QueueStats, BrokerError> {
        self.inner.queue_stats(queue).await
    }

    async fn tasks(&self, queue: &QueueName, state: TaskState, page: Page) -> Result<Vec<TaskInfo>, BrokerError> {
        self.inner.tasks(queue, state, page).await
    }

    async fn task(&self, queue: &QueueName, id: &TaskId) -> Result<Option<TaskInfo>, BrokerError> {
        self.inner.task(queue, id).await
    }

    async fn queues_of(&self, id: &TaskId) -> Result<Vec<QueueName>, BrokerError> {
        self.inner.queues_of(id).await
    }

    async fn wait_for_end(&self, queue: &QueueName, id: &TaskId, limit: Duration) -> Result<TaskEnd, BrokerError> {
        self.inner.wait_for_end(queue, id, limit).await
    }

    async fn wait_until_idle(&self, queues: &[QueueName], limit: Duration) -> Result<bool, BrokerError> {
        self.inner.wait_until_idle(queues, limit).await
    }

    async fn group_tasks(
        &self,
        queue: &QueueName,
        group: &GroupName,
        page: Page,
    ) -> Result<Vec<TaskInfo>, BrokerError> {
        self.inner.group_tasks(queue, group, page).await
    }

    async fn locks(&self, queue: &QueueName, after: Option<&str>) -> Result<LockPage, BrokerError> {
        self.inner.locks(queue, after).await
    }

    async fn failures(&self, queue: &QueueName, id: &TaskId) -> Result<Vec<Failure>, BrokerError> {
        self.inner.failures(queue, id).await
    }

    async fn history(&self, queue: &QueueName, days: usize) -> Result<Vec<DayStats>, BrokerError> {
        self.inner.history(queue, days).await
    }

    async fn memory_usage(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        self.inner.memory_usage(queue).await
    }

    async fn pause(&self, queue: &QueueName) -> Result<bool, BrokerError> {
        self.inner.pause(queue).await
    }

    async fn resume(&self, queue: &QueueName) -> Result<bool, BrokerError> {
        self.inner.resume(queue).await
    }
}

#[async_trait]
impl Groups for Flaky {
    async fn groups(
        &self,
        queue: &QueueName,
        after: Option<&GroupStep>,
        limit: usize,
    ) -> Result<GroupPage, BrokerError> {
        self.pulse("groups").await;
        self.inner.groups(queue, after, limit).await
    }

    async fn group(&self, queue: &QueueName, group: &GroupName) -> Result<Option<GroupStats>, BrokerError> {
        self.pulse("group").await;
        self.inner.group(queue, group).await
    }

    async fn worth_aggregating(&self, queues: &[QueueName]) -> Result<Vec<QueueName>, BrokerError> {
        self.inner.worth_aggregating(queues).await
    }

    async fn ripe_groups(
        &self,
        queue: &QueueName,
        rules: &GroupRules,
        from: Option<&GroupStep>,
    ) -> Result<RipeGroups, BrokerError> {
        self.pulse("ripe_groups").await;
        self.reach(queue)?;
        self.walks.fetch_add(1, SeqCst);
        let mut ripe = self.inner.ripe_groups(queue, rules, from).await?;
        if self.endless_walks.load(SeqCst) {
            ripe.next = Some(GroupStep::from_text("again"));
        }
        Ok(ripe)
    }

    async fn claim_set(
        &self,
        queue: &QueueName,
        group: &GroupName,
        rules: &GroupRules,
    ) -> Result<Option<TaskSet>, BrokerError> {
        self.pulse("claim_set").await;
        if *self.refuse_claims.lock().unwrap() == Some(queue.as_str()) {
            self.refused_claims.fetch_add(1, SeqCst);
            return Err(down());
        }
        self.most_claiming.fetch_max(self.claiming.fetch_add(1, SeqCst) + 1, SeqCst);
        // Claims that are made together have all begun before one of them returns.
        tokio::task::yield_now().await;
        let set = self.inner.claim_set(queue, group, rules).await;
        self.claiming.fetch_sub(1, SeqCst);
        let set = set?;
        if set.is_some() {
            self.claims.lock().unwrap().push(self.walks.load(SeqCst));
        }
        Ok(set)
    }

    async fn finish_set(&self, set: &TaskSet, outcome: &SetOutcome) -> Result<(), SetError> {
        self.pulse("finish_set").await;
        self.inner.finish_set(set, outcome).await
    }

    async fn release_set(&self, set: &TaskSet) -> Result<(), BrokerError> {
        self.pulse("release_set").await;
        self.inner.release_set(set).await
    }

    async fn reclaim_sets(&self, queue: &QueueName) -> Result<usize, BrokerError> {
        self.pulse("reclaim_sets").await;
        self.inner.reclaim_sets(queue).await
    }
}

#[async_trait]
impl Repair for Flaky {
    async fn change_task(
        &self,
        queue: &QueueName,
        id: &TaskId,
        only: Option<TaskState>,
        action: BulkAction,
    ) -> Result<Changed, BrokerError> {
        self.inner.change_task(queue, id, only, action).await
    }

    async fn move_task(&self, queue: &QueueName, id: &TaskId, to: &QueueName) -> Result<Changed, MoveError> {
        self.inner.move_task(queue, id, to).await
    }

    async fn edit_payload(&self, queue: &QueueName, id: &TaskId, edit: &PayloadEdit) -> Result<Changed, EditError> {
        self.inner.edit_payload(queue, id, edit).await
    }

    async fn end_orphan(&self, queue: &QueueName, id: &TaskId, error: &str) -> Result<Changed, BrokerError> {
        self.inner.end_orphan(queue, id, error).await
    }

    async fn change_some(
        &self,
        queue: &QueueName,
        chosen: &Chosen,
        action: BulkAction,
        limit: usize,
    ) -> Result<BulkSlice, BrokerError> {
        self.inner.change_some(queue, chosen, action, limit).await
    }

    async fn release_lock(
        &self,
        queue: &QueueName,
        key: &str,
        holder: &TaskId,
        stuck: bool,
    ) -> Result<bool, BrokerError> {
        self.inner.release_lock(queue, key, holder, stuck).await
    }

    async fn delete_queue(&self, queue: &QueueName) -> Result<QueueDeleted, BrokerError> {
        self.inner.delete_queue(queue).await
    }
}

#[async_trait]
impl Diagnose for Flaky {
    async fn nodes(&self) -> Result<Vec<Node>, BrokerError> {
        self.inner.nodes().await
    }
    async fn examine(&self, queue: &QueueName, limit: usize) -> Result<Examination, BrokerError> {
        self.inner.examine(queue, limit).await
    }
}

#[async_trait]
impl Semaphores for Flaky {
    async fn acquire_token(
        &self,
        scope: &str,
        max: usize,
        task: &TaskId,
        until: DateTime<Utc>,
    ) -> Result<bool, BrokerError> {
        self.inner.acquire_token(scope, max, task, until).await
    }

    async fn release_token(&self, scope: &str, task: &TaskId, until: DateTime<Utc>) -> Result<bool, BrokerError> {
        self.inner.release_token(scope, task, until).await
    }
}

#[async_trait]
impl Shapes for Flaky {
    async fn keep_shapes(&self, shapes: &[NewShape], join: JoinShapes) -> Result<(), BrokerError> {
        self.inner.keep_shapes(shapes, join).await
    }

    async fn shape(&self, job: &str, fingerprint: Option<u32>) -> Result<Option<Bytes>, BrokerError> {
        self.pulse("shape").await;
        if counts_down(&self.refuse_shapes) {
            return Err(down());
        }
        self.inner.shape(job, fingerprint).await
    }

    fn stored_shapes(&self) -> &StoredShapes {
        self.inner.stored_shapes()
    }
}

#[async_trait]
impl Schedules for Flaky {
    async fn tick(&self, tick: &Tick) -> Result<Ticked, BrokerError> {
        self.pulse("tick").await;
        self.inner.tick(tick).await
    }

    async fn plan_entry(&self, plan: &EntryPlan) -> Result<Planned, BrokerError> {
        self.pulse("plan_entry").await;
        self.inner.plan_entry(plan).await
    }

    async fn entry(&self, queue: &QueueName, entry: &EntryId) -> Result<Option<EntryState>, BrokerError> {
        self.inner.entry(queue, entry).await
    }

    async fn pause_entry(&self, queue: &QueueName, entry: &EntryId, paused: bool) -> Result<bool, BrokerError> {
        self.inner.pause_entry(queue, entry, paused).await
    }

    async fn forget_entry(&self, queue: &QueueName, entry: &EntryId) -> Result<(), BrokerError> {
        self.inner.forget_entry(queue, entry).await
    }

    async fn lead(&self, candidate: &Candidate, ttl: Duration) -> Result<Lead, BrokerError> {
        self.pulse("lead").await;
        self.inner.lead(candidate, ttl).await
    }

    async fn resign(&self, candidate: &Candidate) -> Result<(), BrokerError> {
        self.pulse("resign").await;
        self.inner.resign(candidate).await
    }

    async fn wait_for_lead(&self, program: &str, limit: Duration) -> Result<(), BrokerError> {
        self.pulse("wait_for_lead").await;
        self.inner.wait_for_lead(program, limit).await
    }

    async fn show_entries(
        &self,
        scheduler: &str,
        entries: &[SchedulerEntry],
        ttl: Duration,
    ) -> Result<(), BrokerError> {
        self.inner.show_entries(scheduler, entries, ttl).await
    }

    async fn withdraw_entries(&self, scheduler: &str) -> Result<(), BrokerError> {
        self.inner.withdraw_entries(scheduler).await
    }

    async fn record_enqueue(&self, entry: &str, event: &SchedulerEnqueueEvent) -> Result<(), BrokerError> {
        self.inner.record_enqueue(entry, event).await
    }

    async fn scheduler_entries(&self) -> Result<Vec<SchedulerEntry>, BrokerError> {
        self.inner.scheduler_entries().await
    }

    async fn enqueue_history(&self, entry: &str, page: Page) -> Result<Vec<SchedulerEnqueueEvent>, BrokerError> {
        self.inner.enqueue_history(entry, page).await
    }
}
