//! SQLite with every enqueue made through the view `enqueue` by a connection of another program, as sqlx would.

use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use asynq_runtime::{
    Client,
    broker::{sqlite::SqliteBroker, *},
    task::{
        GroupName, Progress, QueueName, SchedulerEnqueueEvent, SchedulerEntry, ServerInfo, TaskId, TaskInfo, TaskState,
        WorkerInfo,
    },
};
use bytes::Bytes;
use chrono::{DateTime, SubsecRound as _, Utc};
use rusqlite::{Connection, Error, params};
use tokio_util::sync::CancellationToken;

/// A broker on `file` whose tasks are enqueued through the view.
#[derive(Debug)]
pub(crate) struct ByView {
    pub(crate) inner: Arc<dyn Broker>,
    pub(crate) file: PathBuf,
    /// Whether the clock is a test's manual one, so that rows must contain the time.
    pub(crate) clock_is_manual: bool,
}

const INSERT: &str = "INSERT INTO enqueue(queue, id, type, msg, due, delay, unique_key, unique_ms, grp, retried, max_retry,
  timeout, deadline, retention, extra, now) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";

impl ByView {
    fn insert(&self, connection: &Connection, task: &NewTask) -> Result<Placed, Refused> {
        let millis = |span: Duration| i64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX / 4);
        let (due, delay) = match task.when {
            When::Now => (None, None),
            When::In(delay) => (None, Some(millis(delay))),
            When::At(at) => (Some(at.timestamp_millis() + i64::from(at != at.trunc_subsecs(3))), None),
        };
        let message = &task.message;
        let inserted = connection.prepare_cached(INSERT).unwrap().execute(params![
            task.queue.as_str(),
            task.id.as_str(),
            message.r#type,
            message.encode(),
            due,
            delay,
            task.unique.as_ref().map(|lock| &lock.key),
            task.unique.as_ref().map(|lock| millis(lock.ttl)),
            task.group.as_ref().map(GroupName::as_str),
            message.retried,
            message.retry,
            message.timeout,
            message.deadline,
            message.retention,
            task.extra.to_bytes(),
            self.clock_is_manual.then(|| self.inner.now().timestamp_millis()),
        ]);
        match inserted {
            Ok(_) => {}
            Err(Error::SqliteFailure(_, Some(text))) if text.ends_with("task.id") => return Err(Refused::IdConflict),
            Err(Error::SqliteFailure(_, Some(text))) if text.ends_with("ulock.key") => {
                let sql = "SELECT id FROM ulock JOIN queue USING(q) WHERE name = ?1 AND key = ?2";
                let key = &task.unique.as_ref().expect("only a unique task meets a lock").key;
                let holder = connection.query_row(sql, [task.queue.as_str(), key], |row| row.get::<_, String>(0));
                return Err(Refused::Duplicate { holder: holder.ok().map(|id| TaskId::from_wire(&id)) });
            }
            Err(error) => panic!("{error:?}"),
        }
        let sql = "SELECT state, CASE state WHEN 3 THEN at ELSE since END FROM task JOIN queue USING(q)
                   WHERE name = ?1 AND id = ?2";
        let (state, at): (u8, i64) = connection
            .query_row(sql, [task.queue.as_str(), task.id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap();
        Ok(Placed {
            state: TaskState::ALL[usize::from(state) - 1],
            process_at: DateTime::from_timestamp_millis(at).unwrap_or(DateTime::<Utc>::MAX_UTC),
            replaced: None,
        })
    }
}

#[async_trait]
impl Produce for ByView {
    async fn enqueue_each(&self, tasks: &mut (dyn Iterator<Item = NewTask> + Send)) -> Vec<Result<Placed, Refused>> {
        let batch: Vec<NewTask> = tasks.collect();
        if let Err(error) = self.inner.ping().await {
            return batch.iter().map(|_| Err(Refused::Broker(error.clone()))).collect();
        }
        let placed = {
            let connection = Connection::open(&self.file).unwrap();
            connection.busy_timeout(asynq_test_support::PATIENCE).unwrap();
            connection.execute_batch("PRAGMA synchronous=OFF; BEGIN IMMEDIATE").unwrap();
            let placed = batch.iter().map(|task| self.insert(&connection, task)).collect();
            connection.execute_batch("COMMIT").unwrap();
            placed
        };
        Client::new(Arc::clone(&self.inner)).wake();
        placed
    }
}

impl asynq_runtime::broker::Sealed for ByView {}

#[async_trait]
impl Broker for ByView {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }
    fn location(&self) -> String {
        self.inner.location()
    }
    fn lease(&self) -> Duration {
        self.inner.lease()
    }
    fn now(&self) -> DateTime<Utc> {
        self.inner.now()
    }
    async fn ping(&self) -> Result<(), BrokerError> {
        self.inner.ping().await
    }
    fn as_sqlite(&self) -> Option<&SqliteBroker> {
        self.inner.as_sqlite()
    }
    async fn close(&self) {
        self.inner.close().await;
    }
}

#[async_trait]
impl Shapes for ByView {
    async fn keep_shapes(&self, shapes: &[NewShape], join: JoinShapes) -> Result<(), BrokerError> {
        self.inner.keep_shapes(shapes, join).await
    }
    async fn shape(&self, job: &str, fingerprint: Option<u32>) -> Result<Option<Bytes>, BrokerError> {
        self.inner.shape(job, fingerprint).await
    }
    fn stored_shapes(&self) -> &StoredShapes {
        self.inner.stored_shapes()
    }
}

asynq_test_support::delegate! {
    ByView: |self, _call| self.inner;
    Consume {
        dequeue_sparing(member: &Member, wanted: &[Wanted], quarantined: Quarantined) -> Result<Vec<Run>, BrokerError>;
        release_unanswered(member: &Member, older: Duration) -> Result<Vec<(QueueName, TaskId)>, BrokerError>;
        ready(queues: &[QueueName], quarantined: Quarantined) -> Result<Vec<QueueName>, BrokerError>;
        wait_for_work(
            queues: &[QueueName], quarantined: Quarantined, limit: Duration
        ) -> Result<Vec<QueueName>, BrokerError>;
        wait_and_dequeue(
            member: &Member, wanted: &[Wanted], quarantined: Quarantined, limit: Duration, stop: &CancellationToken
        ) -> Result<Vec<Run>, BrokerError>;
    }
    Settle {
        settle(batch: &[Settlement]) -> Vec<Result<Settled, BrokerError>>;
        write_result(run: &RunKey, result: &Bytes) -> Result<Settled, BrokerError>;
        free_lock(run: &RunKey, key: &str) -> Result<Settled, BrokerError>;
        write_progress(run: &RunKey, progress: &Progress) -> Result<Settled, BrokerError>;
        save_checkpoint(run: &RunKey, checkpoint: &Bytes) -> Result<Settled, BrokerError>;
        checkpoint(run: &RunKey) -> Result<Option<Bytes>, BrokerError>;
    }
    Maintain {
        forward(queues: &[QueueName], retries: RetryOrder) -> Result<Forwarded, BrokerError>;
        wait_for_due(queues: &[QueueName], limit: Duration) -> Result<Vec<QueueName>, BrokerError>;
        wait_and_forward(queues: &[QueueName], retries: RetryOrder, limit: Duration) -> Result<Forwarded, BrokerError>;
        extend(runs: &[RunKey]) -> Vec<Result<Settled, BrokerError>>;
        extend_locks(locks: &[HeldLock]) -> Result<(), BrokerError>;
        recover(queues: &[QueueName]) -> Result<Recovered, BrokerError>;
        sweep(queue: &QueueName) -> Result<Swept, BrokerError>;
        worth_cleaning(kept: &[ArchivePolicy]) -> Result<Vec<QueueName>, BrokerError>;
        worth_sweeping(queues: &[QueueName]) -> Result<Vec<QueueName>, BrokerError>;
        delete_expired(queue: &QueueName, limit: usize) -> Result<usize, BrokerError>;
        trim_archive(queue: &QueueName, age: Duration, size: usize, limit: usize) -> Result<usize, BrokerError>;
    }
    Groups {
        groups(queue: &QueueName, after: Option<&GroupStep>, limit: usize) -> Result<GroupPage, BrokerError>;
        group(queue: &QueueName, group: &GroupName) -> Result<Option<GroupStats>, BrokerError>;
        ripe_groups(queue: &QueueName, rules: &GroupRules, from: Option<&GroupStep>) -> Result<RipeGroups, BrokerError>;
        claim_set(queue: &QueueName, group: &GroupName, rules: &GroupRules) -> Result<Option<TaskSet>, BrokerError>;
        finish_set(set: &TaskSet, outcome: &SetOutcome) -> Result<(), SetError>;
        release_set(set: &TaskSet) -> Result<(), BrokerError>;
        reclaim_sets(queue: &QueueName) -> Result<usize, BrokerError>;
    }
    Semaphores {
        acquire_token(
            scope: &str,
            max: usize,
            task: &TaskId,
            until: DateTime<Utc>,
            remaining: Duration,
            has_one: bool
        ) -> Result<Option<DateTime<Utc>>, BrokerError>;
        release_token(scope: &str, task: &TaskId, until: DateTime<Utc>) -> Result<bool, BrokerError>;
    }
}

asynq_test_support::delegate_unchanged!(ByView: |self, _call| self.inner);
