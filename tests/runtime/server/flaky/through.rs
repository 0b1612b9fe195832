//! Methods that the flaky broker passes on, unless it is dead or that call hangs.

use std::{
    sync::atomic::Ordering::SeqCst,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use asynq_runtime::{
    TaskId, TaskInfo, TaskState,
    broker::*,
    task::{GroupName, QueueName, SchedulerEnqueueEvent, SchedulerEntry, ServerInfo, WorkerInfo},
};
use bytes::Bytes;
use chrono::{DateTime, Utc};

use super::{Flaky, counts_down, down};

impl Flaky {
    /// Takes 16 s if calls are slow.
    pub(super) async fn take_time(&self) {
        if self.slow_calls.load(SeqCst) {
            // The caller's runtime has one thread, so its clock can be moved on.
            tokio::time::pause();
            tokio::time::advance(Duration::from_secs(16)).await;
            tokio::time::resume();
        }
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

asynq_test_support::delegate! {
    Flaky: |self, call| self.pulse(call).await;
    Produce {
        enqueue_each(tasks: &mut (dyn Iterator<Item = NewTask> + Send)) -> Vec<Result<Placed, Refused>>;
    }
    Groups {
        group(queue: &QueueName, group: &GroupName) -> Result<Option<GroupStats>, BrokerError>;
        worth_aggregating(queues: &[QueueName]) -> Result<Vec<QueueName>, BrokerError>;
        release_set(set: &TaskSet) -> Result<(), BrokerError>;
        reclaim_sets(queue: &QueueName) -> Result<usize, BrokerError>;
    } + {
        async fn finish_set(&self, set: &TaskSet, outcome: &SetOutcome) -> Result<(), SetError> {
            self.ends.fetch_add(1, SeqCst);
            self.take_time().await;
            if self.refuse_ends.load(SeqCst) {
                return Err(down().into());
            }
            self.pulse("finish_set").await.finish_set(set, outcome).await
        }

        async fn groups(
            &self,
            queue: &QueueName,
            after: Option<&GroupStep>,
            limit: usize,
        ) -> Result<GroupPage, BrokerError> {
            self.lists_groups.lock().unwrap().push(queue.to_string());
            if counts_down(&self.refuse_groups) {
                return Err(down());
            }
            self.pulse("groups").await.groups(queue, after, limit).await
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
            if self.slow_walks.load(SeqCst) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            let mut ripe = self.inner.ripe_groups(queue, rules, from).await?;
            self.walked.lock().unwrap().push(Instant::now());
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
    Semaphores {
        release_token(scope: &str, task: &TaskId, until: DateTime<Utc>) -> Result<bool, BrokerError>;
    } + {
        async fn acquire_token(
            &self,
            scope: &str,
            max: usize,
            task: &TaskId,
            until: DateTime<Utc>,
            remaining: Duration,
            has_one: bool,
        ) -> Result<Option<DateTime<Utc>>, BrokerError> {
            let broker = self.pulse("acquire_token").await;
            let given = broker.acquire_token(scope, max, task, until, remaining, has_one).await?;
            let withholds = self.withholds_token.lock().unwrap().take();
            if let Some(is_given) = withholds {
                is_given.send(()).unwrap();
                std::future::pending::<()>().await;
            }
            match self.loses_token.lock().unwrap().take() {
                Some(kind) => Err(BrokerError::new(kind, "lost for a test")),
                None => Ok(given),
            }
        }
    }
}

asynq_test_support::delegate_unchanged!(Flaky: |self, call| self.pulse(call).await; waits {
    async fn task(&self, queue: &QueueName, id: &TaskId) -> Result<Option<TaskInfo>, BrokerError> {
        self.pulse("task").await;
        if counts_down(&self.refuse_looks) {
            return Err(down());
        }
        self.inner.task(queue, id).await
    }

    async fn wait_for_end(&self, queue: &QueueName, id: &TaskId, limit: Duration) -> Result<TaskEnd, BrokerError> {
        self.pulse("wait_for_end").await;
        if self.refuse_waits.load(SeqCst) {
            return Err(down());
        }
        self.inner.wait_for_end(queue, id, limit).await
    }
});
