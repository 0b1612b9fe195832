//! A broker that fails on demand, in front of one that does not.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use async_trait::async_trait;
use asynq_runtime::{
    Bytes, TaskId, TaskInfo, TaskState,
    broker::{
        Broker, BrokerError, BrokerErrorKind, BulkAction, BulkSlice, Cancellations, Candidate, Changed, Chosen,
        Consume, DayStats, EditError, EntryId, EntryPlan, EntryState, Failure, Forwarded, GroupRules, GroupStats,
        Groups, HeldLock, Inspect, Lead, Maintain, Member, MoveError, NewTask, Page, PayloadEdit, Placed, Presence,
        Produce, QueueDeleted, QueueStats, Recovered, Refused, Repair, Run, RunKey, Schedules, Semaphores, ServerName,
        ServerState, SetError, SetOutcome, Settle, Settled, Settlement, Suspects, Swept, TaskSet, Tick, Ticked, Wanted,
    },
    task::{
        GroupName, Progress, QueueName, SchedulerEnqueueEvent, SchedulerEntry, ServerInfo, UndecodableMessage,
        WorkerInfo,
    },
};
use chrono::{DateTime, Utc};

#[derive(Debug)]
pub(crate) struct Flaky {
    inner: Arc<dyn Broker>,
    /// So many settles take effect, but their answers are lost.
    pub(crate) lose_answers: AtomicU32,
    /// So many settles fail before they take effect.
    pub(crate) refuse_settles: AtomicU32,
    /// So often the settling of the task `stubborn` fails while its neighbours are taken.
    pub(crate) refuse_stubborn: AtomicU32,
    /// So many calls of forward panic.
    pub(crate) panics: AtomicU32,
    /// So many dequeues fail before they take effect.
    pub(crate) refuse_dequeues: AtomicU32,
    /// No call is answered any more.
    pub(crate) dead: AtomicBool,
    /// Every extension says that the run is somebody else's.
    pub(crate) fenced: AtomicBool,
    /// What is dequeued cannot be read.
    pub(crate) garbled: AtomicBool,
    lease: Duration,
    /// Ids of tasks in the order in which they were settled, and how.
    pub(crate) settled: Mutex<Vec<(String, Settlement)>>,
}

impl Flaky {
    pub(crate) fn new(inner: Arc<dyn Broker>) -> Arc<Self> {
        Self::with_lease(inner, Duration::from_secs(10))
    }

    pub(crate) fn with_lease(inner: Arc<dyn Broker>, lease: Duration) -> Arc<Self> {
        Arc::new(Self {
            inner,
            lose_answers: AtomicU32::new(0),
            refuse_settles: AtomicU32::new(0),
            refuse_stubborn: AtomicU32::new(0),
            panics: AtomicU32::new(0),
            refuse_dequeues: AtomicU32::new(0),
            dead: AtomicBool::new(false),
            fenced: AtomicBool::new(false),
            garbled: AtomicBool::new(false),
            lease,
            settled: Mutex::default(),
        })
    }

    /// Never answers if it is dead.
    async fn pulse(&self) {
        if self.dead.load(SeqCst) {
            std::future::pending::<()>().await;
        }
    }
}

fn counts_down(counter: &AtomicU32) -> bool {
    counter.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_ok()
}

fn down() -> BrokerError {
    BrokerError::new(BrokerErrorKind::Unavailable, "down for a test")
}

#[async_trait]
impl Produce for Flaky {
    async fn enqueue(&self, batch: Vec<NewTask>) -> Vec<Result<Placed, Refused>> {
        self.pulse().await;
        self.inner.enqueue(batch).await
    }
}

#[async_trait]
impl Consume for Flaky {
    async fn dequeue_sparing(
        &self,
        member: &Member,
        wanted: &[Wanted],
        suspects: &Suspects,
    ) -> Result<Vec<Run>, BrokerError> {
        self.pulse().await;
        if counts_down(&self.refuse_dequeues) {
            return Err(down());
        }
        let mut runs = self.inner.dequeue_sparing(member, wanted, suspects).await?;
        if self.garbled.load(SeqCst) {
            for run in &mut runs {
                run.message =
                    Err(UndecodableMessage { raw: Bytes::from_static(b"\xff\xfe"), reason: "garbled".into() });
            }
        }
        Ok(runs)
    }

    async fn wait_for_work(&self, queues: &[QueueName], limit: Duration) -> Result<(), BrokerError> {
        self.pulse().await;
        self.inner.wait_for_work(queues, limit).await
    }
}

#[async_trait]
impl Settle for Flaky {
    async fn settle(&self, batch: &[Settlement]) -> Vec<Result<Settled, BrokerError>> {
        self.pulse().await;
        if counts_down(&self.refuse_settles) {
            return batch.iter().map(|_| Err(down())).collect();
        }
        let stubborn = batch.iter().position(|settlement| settlement.run.id == "stubborn");
        if let Some(at) = stubborn.filter(|_| counts_down(&self.refuse_stubborn)) {
            let mut others = batch.to_vec();
            others.remove(at);
            let mut answers = self.inner.settle(&others).await;
            answers.insert(at, Err(down()));
            return answers;
        }
        let answers = self.inner.settle(batch).await;
        self.settled.lock().unwrap().extend(batch.iter().map(|s| (s.run.id.to_string(), s.clone())));
        if counts_down(&self.lose_answers) {
            return batch.iter().map(|_| Err(down())).collect();
        }
        answers
    }

    async fn write_result(&self, run: &RunKey, result: &Bytes) -> Result<Settled, BrokerError> {
        self.pulse().await;
        self.inner.write_result(run, result).await
    }

    async fn free_lock(&self, run: &RunKey, key: &str) -> Result<Settled, BrokerError> {
        self.pulse().await;
        self.inner.free_lock(run, key).await
    }

    async fn write_progress(&self, run: &RunKey, progress: &Progress) -> Result<Settled, BrokerError> {
        self.pulse().await;
        self.inner.write_progress(run, progress).await
    }
}

#[async_trait]
impl Maintain for Flaky {
    async fn forward(&self, queues: &[QueueName]) -> Result<Forwarded, BrokerError> {
        self.pulse().await;
        assert!(!counts_down(&self.panics), "a bug in a broker");
        self.inner.forward(queues).await
    }

    async fn wait_for_due(&self, queues: &[QueueName], limit: Duration) -> Result<(), BrokerError> {
        self.pulse().await;
        self.inner.wait_for_due(queues, limit).await
    }

    async fn extend(&self, runs: &[RunKey]) -> Result<Vec<Settled>, BrokerError> {
        self.pulse().await;
        if self.fenced.load(SeqCst) {
            return Ok(vec![Settled::Fenced; runs.len()]);
        }
        self.inner.extend(runs).await
    }

    async fn extend_locks(&self, locks: &[HeldLock]) -> Result<(), BrokerError> {
        self.pulse().await;
        self.inner.extend_locks(locks).await
    }

    async fn recover(&self, queues: &[QueueName]) -> Result<Recovered, BrokerError> {
        self.pulse().await;
        self.inner.recover(queues).await
    }

    async fn sweep(&self, queue: &QueueName) -> Result<Swept, BrokerError> {
        self.pulse().await;
        self.inner.sweep(queue).await
    }

    async fn delete_expired(&self, queue: &QueueName, limit: usize) -> Result<usize, BrokerError> {
        self.pulse().await;
        self.inner.delete_expired(queue, limit).await
    }

    async fn trim_archive(
        &self,
        queue: &QueueName,
        max_age: Duration,
        max_size: usize,
        limit: usize,
    ) -> Result<usize, BrokerError> {
        self.pulse().await;
        self.inner.trim_archive(queue, max_age, max_size, limit).await
    }
}

#[async_trait]
impl Presence for Flaky {
    async fn join(&self, name: &ServerName, info: &ServerInfo) -> Result<Member, BrokerError> {
        self.pulse().await;
        self.inner.join(name, info).await
    }

    async fn beat(&self, member: &Member, info: &ServerInfo, workers: &[WorkerInfo]) -> Result<(), BrokerError> {
        self.pulse().await;
        self.inner.beat(member, info, workers).await
    }

    async fn leave(&self, member: &Member) -> Result<(), BrokerError> {
        self.pulse().await;
        self.inner.leave(member).await
    }

    async fn servers(&self) -> Result<Vec<ServerState>, BrokerError> {
        self.pulse().await;
        self.inner.servers().await
    }

    async fn cancel(&self, id: &TaskId) -> Result<(), BrokerError> {
        self.pulse().await;
        self.inner.cancel(id).await
    }

    async fn cancellations(&self) -> Result<Box<dyn Cancellations>, BrokerError> {
        self.pulse().await;
        self.inner.cancellations().await
    }
}

#[async_trait]
impl Inspect for Flaky {
    async fn queues(&self) -> Result<Vec<QueueName>, BrokerError> {
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

    async fn group_tasks(
        &self,
        queue: &QueueName,
        group: &GroupName,
        page: Page,
    ) -> Result<Vec<TaskInfo>, BrokerError> {
        self.inner.group_tasks(queue, group, page).await
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
        after: Option<&GroupName>,
        limit: usize,
    ) -> Result<Vec<GroupStats>, BrokerError> {
        self.pulse().await;
        self.inner.groups(queue, after, limit).await
    }

    async fn claim_set(
        &self,
        queue: &QueueName,
        group: &GroupName,
        rules: &GroupRules,
    ) -> Result<Option<TaskSet>, BrokerError> {
        self.pulse().await;
        self.inner.claim_set(queue, group, rules).await
    }

    async fn finish_set(&self, set: &TaskSet, outcome: &SetOutcome) -> Result<(), SetError> {
        self.pulse().await;
        self.inner.finish_set(set, outcome).await
    }

    async fn release_set(&self, set: &TaskSet) -> Result<(), BrokerError> {
        self.pulse().await;
        self.inner.release_set(set).await
    }

    async fn reclaim_sets(&self, queue: &QueueName) -> Result<usize, BrokerError> {
        self.pulse().await;
        self.inner.reclaim_sets(queue).await
    }
}

#[async_trait]
impl Repair for Flaky {
    async fn run_task(&self, queue: &QueueName, id: &TaskId) -> Result<Changed, BrokerError> {
        self.inner.run_task(queue, id).await
    }

    async fn archive_task(&self, queue: &QueueName, id: &TaskId) -> Result<Changed, BrokerError> {
        self.inner.archive_task(queue, id).await
    }

    async fn delete_task(&self, queue: &QueueName, id: &TaskId) -> Result<Changed, BrokerError> {
        self.inner.delete_task(queue, id).await
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

    async fn delete_queue(&self, queue: &QueueName) -> Result<QueueDeleted, BrokerError> {
        self.inner.delete_queue(queue).await
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

    async fn release_token(&self, scope: &str, task: &TaskId) -> Result<bool, BrokerError> {
        self.inner.release_token(scope, task).await
    }
}

#[async_trait]
impl Schedules for Flaky {
    async fn tick(&self, tick: &Tick) -> Result<Ticked, BrokerError> {
        self.pulse().await;
        self.inner.tick(tick).await
    }

    async fn plan_entry(&self, plan: &EntryPlan) -> Result<EntryState, BrokerError> {
        self.pulse().await;
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
        self.pulse().await;
        self.inner.lead(candidate, ttl).await
    }

    async fn resign(&self, candidate: &Candidate) -> Result<(), BrokerError> {
        self.pulse().await;
        self.inner.resign(candidate).await
    }

    async fn wait_for_lead(&self, limit: Duration) -> Result<(), BrokerError> {
        self.pulse().await;
        self.inner.wait_for_lead(limit).await
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

#[async_trait]
impl Broker for Flaky {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn location(&self) -> String {
        self.inner.location()
    }

    fn lease(&self) -> Duration {
        self.lease
    }

    fn now(&self) -> DateTime<Utc> {
        self.inner.now()
    }

    async fn ping(&self) -> Result<(), BrokerError> {
        self.pulse().await;
        self.inner.ping().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
