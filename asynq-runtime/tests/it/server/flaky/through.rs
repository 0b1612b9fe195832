//! Methods that the flaky broker passes on, unless it is dead or that call hangs.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use async_trait::async_trait;
use asynq_runtime::{
    TaskId, TaskInfo, TaskState,
    broker::*,
    task::{GroupName, QueueName, SchedulerEnqueueEvent, SchedulerEntry, ServerInfo, WorkerInfo},
};
use bytes::Bytes;
use chrono::{DateTime, Utc};

use super::{Flaky, counts_down, down};

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

asynq_test_support::delegate! {
    Flaky: |self, call| self.pulse(call).await;
    Groups {
        groups(queue: &QueueName, after: Option<&GroupStep>, limit: usize) -> Result<GroupPage, BrokerError>;
        group(queue: &QueueName, group: &GroupName) -> Result<Option<GroupStats>, BrokerError>;
        worth_aggregating(queues: &[QueueName]) -> Result<Vec<QueueName>, BrokerError>;
        finish_set(set: &TaskSet, outcome: &SetOutcome) -> Result<(), SetError>;
        release_set(set: &TaskSet) -> Result<(), BrokerError>;
        reclaim_sets(queue: &QueueName) -> Result<usize, BrokerError>;
    } + {
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
    }
    Presence {
        join(name: &ServerName, info: &ServerInfo) -> Result<Member, BrokerError>;
        beat(member: &Member, info: &ServerInfo, workers: &[WorkerInfo]) -> Result<(), BrokerError>;
        leave(member: &Member) -> Result<(), BrokerError>;
        servers() -> Result<Vec<ServerState>, BrokerError>;
        cancel(id: &TaskId) -> Result<(), BrokerError>;
        cancellations() -> Result<Box<dyn Cancellations>, BrokerError>;
    }
    Inspect {
        queues() -> Result<Vec<QueueName>, BrokerError>;
        queue_stats(queue: &QueueName) -> Result<QueueStats, BrokerError>;
        tasks(queue: &QueueName, state: TaskState, page: Page) -> Result<Vec<TaskInfo>, BrokerError>;
        task(queue: &QueueName, id: &TaskId) -> Result<Option<TaskInfo>, BrokerError>;
        group_tasks(queue: &QueueName, group: &GroupName, page: Page) -> Result<Vec<TaskInfo>, BrokerError>;
        locks(queue: &QueueName, after: Option<&str>) -> Result<LockPage, BrokerError>;
        failures(queue: &QueueName, id: &TaskId) -> Result<Vec<Failure>, BrokerError>;
        history(queue: &QueueName, days: usize) -> Result<Vec<DayStats>, BrokerError>;
        memory_usage(queue: &QueueName) -> Result<u64, BrokerError>;
        pause(queue: &QueueName) -> Result<bool, BrokerError>;
        resume(queue: &QueueName) -> Result<bool, BrokerError>;
        queues_of(id: &TaskId) -> Result<Vec<QueueName>, BrokerError>;
        wait_for_end(queue: &QueueName, id: &TaskId, limit: Duration) -> Result<TaskEnd, BrokerError>;
        wait_until_idle(queues: &[QueueName], limit: Duration) -> Result<bool, BrokerError>;
    }
    Diagnose {
        nodes() -> Result<Vec<Node>, BrokerError>;
        examine(queue: &QueueName, limit: usize) -> Result<Examination, BrokerError>;
    }
    Repair {
        change_task(queue: &QueueName, id: &TaskId, only: Option<TaskState>, action: BulkAction) -> Result<Changed, BrokerError>;
        move_task(queue: &QueueName, id: &TaskId, to: &QueueName) -> Result<Changed, MoveError>;
        edit_payload(queue: &QueueName, id: &TaskId, edit: &PayloadEdit) -> Result<Changed, EditError>;
        end_orphan(queue: &QueueName, id: &TaskId, error: &str) -> Result<Changed, BrokerError>;
        change_some(queue: &QueueName, chosen: &Chosen, action: BulkAction, n: usize) -> Result<BulkSlice, BrokerError>;
        release_lock(queue: &QueueName, key: &str, holder: &TaskId, stuck: bool) -> Result<bool, BrokerError>;
        delete_queue(queue: &QueueName) -> Result<QueueDeleted, BrokerError>;
    }
    Schedules {
        tick(tick: &Tick) -> Result<Ticked, BrokerError>;
        plan_entry(plan: &EntryPlan) -> Result<Planned, BrokerError>;
        entry(queue: &QueueName, entry: &EntryId) -> Result<Option<EntryState>, BrokerError>;
        pause_entry(queue: &QueueName, entry: &EntryId, paused: bool) -> Result<bool, BrokerError>;
        forget_entry(queue: &QueueName, entry: &EntryId) -> Result<(), BrokerError>;
        lead(candidate: &Candidate, ttl: Duration) -> Result<Lead, BrokerError>;
        resign(candidate: &Candidate) -> Result<(), BrokerError>;
        wait_for_lead(program: &str, limit: Duration) -> Result<(), BrokerError>;
        show_entries(scheduler: &str, entries: &[SchedulerEntry], ttl: Duration) -> Result<(), BrokerError>;
        withdraw_entries(scheduler: &str) -> Result<(), BrokerError>;
        record_enqueue(entry: &str, event: &SchedulerEnqueueEvent) -> Result<(), BrokerError>;
        scheduler_entries() -> Result<Vec<SchedulerEntry>, BrokerError>;
        enqueue_history(entry: &str, page: Page) -> Result<Vec<SchedulerEnqueueEvent>, BrokerError>;
    }
    Semaphores {
        acquire_token(scope: &str, max: usize, task: &TaskId, until: DateTime<Utc>) -> Result<bool, BrokerError>;
        release_token(scope: &str, task: &TaskId, until: DateTime<Utc>) -> Result<bool, BrokerError>;
    }
}
