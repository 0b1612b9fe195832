//! A broker that fails on demand, in front of one that does not.

mod through;

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use asynq_runtime::{
    Bytes, TaskId,
    broker::{
        Action, Broker, BrokerError, BrokerErrorKind, Consume, Forwarded, HeldLock, Maintain, Member, Quarantined,
        Recovered, RetryOrder, Run, RunKey, Settle, Settled, Settlement, Swept, Wanted,
    },
    task::{Progress, QueueName, UndecodableMessage},
};
use chrono::{DateTime, Utc};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
pub(crate) struct Flaky {
    inner: Arc<dyn Broker>,
    /// The number of settles that take effect, but whose answers are lost.
    pub(crate) lose_answers: AtomicU32,
    /// The number of settles that fail before they take effect.
    pub(crate) refuse_settles: AtomicU32,
    /// How often the settling of the task `stubborn` fails while its neighbours are taken.
    pub(crate) refuse_stubborn: AtomicU32,
    /// Whether `stubborn` makes the whole call fail instead.
    pub(crate) stubborn_spoils_calls: AtomicBool,
    /// The method whose next call panics.
    pub(crate) panics: Mutex<Option<&'static str>>,
    /// The number of dequeues that give two tasks more than they were asked for.
    pub(crate) generous: AtomicU32,
    /// The number of dequeues that fail before they take effect.
    pub(crate) refuse_dequeues: AtomicU32,
    /// The number of dequeues that take effect, but whose answers are lost.
    pub(crate) lose_dequeues: AtomicU32,
    /// The tasks of those dequeues, until they are released.
    unanswered: Mutex<Vec<Run>>,
    /// Whether dequeues run on the runtime of the jobs.
    pub(crate) is_beside_jobs: AtomicBool,
    /// Whether each dequeue takes longer than a queue that gave nothing counts as empty.
    pub(crate) slow_dequeues: AtomicBool,
    /// The names of the calls that fetch: `ready` and `dequeue`.
    pub(crate) fetches: Mutex<Vec<&'static str>>,
    /// The number of dequeues.
    pub(crate) dequeues: AtomicU32,
    /// Every wait for tasks ends at once without a reason.
    pub(crate) spurious_wakeups: AtomicBool,
    /// The times at which such waits ended.
    pub(crate) alarms: Mutex<Vec<Instant>>,
    /// Every ping fails.
    pub(crate) refuse_pings: AtomicBool,
    /// Every result that is written is refused, because another run has the task.
    pub(crate) lose_results: AtomicBool,
    /// No call is answered any more.
    pub(crate) dead: AtomicBool,
    /// Every extension is refused, because another run has the task.
    pub(crate) fenced: AtomicBool,
    /// Tasks that are dequeued cannot be read.
    pub(crate) garbled: AtomicBool,
    /// The method that hangs.
    pub(crate) hangs: Mutex<Option<&'static str>>,
    /// The answers to frees of locks, which then do not take effect.
    pub(crate) lock_answers: Mutex<VecDeque<Result<Settled, BrokerError>>>,
    /// How many seconds by this broker's clock a free of a lock takes.
    pub(crate) seconds_per_free: AtomicU32,
    /// The seconds that have passed so.
    seconds: AtomicU32,
    /// The locks that were freed.
    pub(crate) freed: Mutex<Vec<String>>,
    /// Queues that are away: dequeues from them fail, extensions of leases and progress in them, and what keeps house in them.
    pub(crate) away: Mutex<Vec<&'static str>>,
    /// No completed task, and no archived one because of its age, can be deleted: its page of the file is damaged.
    pub(crate) spoils_deletes: AtomicBool,
    /// The number of looks at a task that fail.
    pub(crate) refuse_looks: AtomicU32,
    /// Every wait for the end of a task fails, as at the end of an outage that outlasts it.
    pub(crate) refuse_waits: AtomicBool,
    /// The number of questions for shapes that fail.
    pub(crate) refuse_shapes: AtomicU32,
    /// The number of lists of groups that fail.
    pub(crate) refuse_groups: AtomicU32,
    /// The queues whose groups were listed, also in vain.
    pub(crate) lists_groups: Mutex<Vec<String>>,
    /// The number of steps of walks over the groups of a queue.
    pub(crate) walks: AtomicU32,
    /// Each such step takes 100 ms.
    pub(crate) slow_walks: AtomicBool,
    /// The times at which such steps ended.
    pub(crate) walked: Mutex<Vec<Instant>>,
    /// Every step of a walk over groups is followed by another.
    pub(crate) endless_walks: AtomicBool,
    /// The end of a set, and the free or extension of a lock, take 16 s by the clock of tokio, longer than the answer of a broker without a
    /// limit of its own is waited for; this one has a minute.
    pub(crate) slow_calls: AtomicBool,
    /// The end of a set fails.
    pub(crate) refuse_ends: AtomicBool,
    /// The number of calls that end a set.
    pub(crate) ends: AtomicU32,
    /// For each set that was claimed, the number of such steps until then.
    pub(crate) claims: Mutex<Vec<u32>>,
    /// The queue whose sets cannot be claimed, and how many claims of them were refused.
    pub(crate) refuse_claims: Mutex<Option<&'static str>>,
    pub(crate) refused_claims: AtomicU32,
    /// The number of claims of sets that are under way.
    claiming: AtomicUsize,
    /// The most claims of sets that were under way at a time.
    pub(crate) most_claiming: AtomicUsize,
    /// The number of recoveries.
    pub(crate) recoveries: AtomicU32,
    /// The number of extensions of leases.
    pub(crate) extensions: AtomicU32,
    /// The most leases that one call extended.
    pub(crate) most_extended: AtomicUsize,
    /// The locks that were extended.
    pub(crate) extended: Mutex<Vec<String>>,
    /// The next extension of locks waits for this.
    pub(crate) extends_locks_after: Mutex<Option<oneshot::Receiver<()>>>,
    /// Told when a token was given whose answer then never comes.
    pub(crate) withholds_token: Mutex<Option<oneshot::Sender<()>>>,
    /// The next acquire of a token takes effect, but is answered by an error of this kind.
    pub(crate) loses_token: Mutex<Option<BrokerErrorKind>>,
    lease: Duration,
    /// Ids of tasks in the order in which they were settled, with their settlements.
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
            stubborn_spoils_calls: AtomicBool::new(false),
            panics: Mutex::default(),
            generous: AtomicU32::new(0),
            refuse_dequeues: AtomicU32::new(0),
            lose_dequeues: AtomicU32::new(0),
            unanswered: Mutex::default(),
            is_beside_jobs: AtomicBool::new(false),
            slow_dequeues: AtomicBool::new(false),
            fetches: Mutex::default(),
            dequeues: AtomicU32::new(0),
            spurious_wakeups: AtomicBool::new(false),
            alarms: Mutex::default(),
            refuse_pings: AtomicBool::new(false),
            lose_results: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            fenced: AtomicBool::new(false),
            garbled: AtomicBool::new(false),
            hangs: Mutex::default(),
            lock_answers: Mutex::default(),
            seconds_per_free: AtomicU32::new(0),
            seconds: AtomicU32::new(0),
            freed: Mutex::default(),
            away: Mutex::default(),
            spoils_deletes: AtomicBool::new(false),
            refuse_looks: AtomicU32::new(0),
            refuse_waits: AtomicBool::new(false),
            refuse_shapes: AtomicU32::new(0),
            refuse_groups: AtomicU32::new(0),
            lists_groups: Mutex::default(),
            walks: AtomicU32::new(0),
            slow_walks: AtomicBool::new(false),
            walked: Mutex::default(),
            endless_walks: AtomicBool::new(false),
            slow_calls: AtomicBool::new(false),
            refuse_ends: AtomicBool::new(false),
            ends: AtomicU32::new(0),
            claims: Mutex::default(),
            refuse_claims: Mutex::default(),
            refused_claims: AtomicU32::new(0),
            claiming: AtomicUsize::new(0),
            most_claiming: AtomicUsize::new(0),
            recoveries: AtomicU32::new(0),
            extensions: AtomicU32::new(0),
            most_extended: AtomicUsize::new(0),
            extended: Mutex::default(),
            extends_locks_after: Mutex::default(),
            withholds_token: Mutex::default(),
            loses_token: Mutex::default(),
            lease,
            settled: Mutex::default(),
        })
    }

    /// Fails for a queue that is away.
    fn reach(&self, queue: &QueueName) -> Result<(), BrokerError> {
        if self.away.lock().unwrap().contains(&queue.as_str()) { Err(down()) } else { Ok(()) }
    }

    /// Returns the broker behind this one; never returns if this one is dead, or this method hangs or panics.
    async fn pulse(&self, method: &str) -> &dyn Broker {
        let panics = self.panics.lock().unwrap().take_if(|panics| *panics == method);
        assert_eq!(panics, None, "a bug in a broker");
        if method == "join" {
            self.take_time().await;
        }
        if self.dead.load(SeqCst) || *self.hangs.lock().unwrap() == Some(method) {
            std::future::pending::<()>().await;
        }
        &*self.inner
    }
}

fn counts_down(counter: &AtomicU32) -> bool {
    counter.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_ok()
}

pub(crate) fn down() -> BrokerError {
    BrokerError::new(BrokerErrorKind::Unavailable, "down for a test")
}

#[async_trait]
impl Consume for Flaky {
    fn has_parts(&self) -> bool {
        !self.away.lock().unwrap().is_empty()
    }

    fn dequeues_beside_jobs(&self) -> bool {
        self.is_beside_jobs.load(SeqCst)
    }

    async fn dequeue_sparing(
        &self,
        member: &Member,
        wanted: &[Wanted],
        quarantined: Quarantined,
    ) -> Result<Vec<Run>, BrokerError> {
        self.pulse("dequeue_sparing").await;
        self.dequeues.fetch_add(1, SeqCst);
        self.fetches.lock().unwrap().push("dequeue");
        if self.slow_dequeues.load(SeqCst) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if counts_down(&self.refuse_dequeues) {
            return Err(down());
        }
        wanted.iter().try_for_each(|wanted| self.reach(&wanted.queue))?;
        let mut wanted = wanted.to_vec();
        if counts_down(&self.generous) {
            wanted.iter_mut().for_each(|wanted| wanted.n += 2);
        }
        let mut runs = self.inner.dequeue_sparing(member, &wanted, quarantined).await?;
        if !runs.is_empty() && counts_down(&self.lose_dequeues) {
            self.unanswered.lock().unwrap().append(&mut runs);
            return Err(down());
        }
        if self.garbled.load(SeqCst) {
            for run in &mut runs {
                run.message =
                    Err(UndecodableMessage { raw: Bytes::from_static(b"\xff\xfe"), reason: "garbled".into() });
            }
        }
        Ok(runs)
    }

    async fn wait_and_dequeue(
        &self,
        member: &Member,
        wanted: &[Wanted],
        quarantined: Quarantined,
        limit: Duration,
        stop: &CancellationToken,
    ) -> Result<Vec<Run>, BrokerError> {
        if self.spurious_wakeups.load(SeqCst) {
            self.alarms.lock().unwrap().push(Instant::now());
            return Ok(Vec::new());
        }
        let queues: Vec<QueueName> = wanted.iter().map(|wanted| wanted.queue.clone()).collect();
        let open = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(Vec::new()),
            open = self.wait_for_work(&queues, quarantined, limit) => open?,
        };
        if open.is_empty() { Ok(Vec::new()) } else { self.dequeue_sparing(member, wanted, quarantined).await }
    }

    async fn release_unanswered(
        &self,
        member: &Member,
        older: Duration,
    ) -> Result<Vec<(QueueName, TaskId)>, BrokerError> {
        self.pulse("release_unanswered").await;
        let unanswered = std::mem::take(&mut *self.unanswered.lock().unwrap());
        let back = |run: &Run| Settlement {
            run: run.key.clone(),
            message: Arc::new(run.message.clone().unwrap()),
            action: Action::Requeue,
            resend: false,
        };
        for settled in self.inner.settle(&unanswered.iter().map(back).collect::<Vec<_>>()).await {
            assert_eq!(settled.unwrap(), Settled::Ok);
        }
        let mut released = self.inner.release_unanswered(member, older).await?;
        released.extend(unanswered.into_iter().map(|run| (run.key.queue, run.key.id)));
        Ok(released)
    }

    async fn ready(&self, queues: &[QueueName], quarantined: Quarantined) -> Result<Vec<QueueName>, BrokerError> {
        self.fetches.lock().unwrap().push("ready");
        self.pulse("ready").await.ready(queues, quarantined).await
    }

    async fn wait_for_work(
        &self,
        queues: &[QueueName],
        quarantined: Quarantined,
        limit: Duration,
    ) -> Result<Vec<QueueName>, BrokerError> {
        self.pulse("wait_for_work").await.wait_for_work(queues, quarantined, limit).await
    }
}

#[async_trait]
impl Settle for Flaky {
    async fn settle(&self, batch: &[Settlement]) -> Vec<Result<Settled, BrokerError>> {
        self.pulse("settle").await;
        if counts_down(&self.refuse_settles) {
            return batch.iter().map(|_| Err(down())).collect();
        }
        let stubborn = batch.iter().position(|settlement| settlement.run.id == "stubborn");
        if stubborn.is_some() && self.stubborn_spoils_calls.load(SeqCst) {
            let spoilt = BrokerError::new(BrokerErrorKind::Unexpected, "one of them cannot be written");
            return vec![Err(spoilt); batch.len()];
        }
        if let Some(at) = stubborn.filter(|_| counts_down(&self.refuse_stubborn)) {
            let mut others = batch.to_vec();
            others.remove(at);
            let mut answers = self.inner.settle(&others).await;
            answers.insert(at, Err(down()));
            return answers;
        }
        // The log is written before the store shows the effect: a test that has seen the effect finds it here.
        self.settled.lock().unwrap().extend(batch.iter().map(|s| (s.run.id.to_string(), s.clone())));
        let answers = self.inner.settle(batch).await;
        if counts_down(&self.lose_answers) {
            return batch.iter().map(|_| Err(down())).collect();
        }
        answers
    }

    async fn write_result(&self, run: &RunKey, result: &Bytes) -> Result<Settled, BrokerError> {
        self.pulse("write_result").await;
        if self.lose_results.load(SeqCst) {
            return Ok(Settled::Fenced);
        }
        self.inner.write_result(run, result).await
    }

    async fn free_lock(&self, run: &RunKey, key: &str) -> Result<Settled, BrokerError> {
        self.pulse("free_lock").await;
        self.take_time().await;
        self.freed.lock().unwrap().push(key.to_owned());
        self.seconds.fetch_add(self.seconds_per_free.load(SeqCst), SeqCst);
        let answer = self.lock_answers.lock().unwrap().pop_front();
        match answer {
            Some(answer) => answer,
            None => self.inner.free_lock(run, key).await,
        }
    }

    async fn write_progress(&self, run: &RunKey, progress: &Progress) -> Result<Settled, BrokerError> {
        self.pulse("write_progress").await;
        self.reach(&run.queue)?;
        self.inner.write_progress(run, progress).await
    }

    async fn save_checkpoint(&self, run: &RunKey, checkpoint: &Bytes) -> Result<Settled, BrokerError> {
        self.pulse("save_checkpoint").await.save_checkpoint(run, checkpoint).await
    }

    async fn checkpoint(&self, run: &RunKey) -> Result<Option<Bytes>, BrokerError> {
        self.pulse("checkpoint").await.checkpoint(run).await
    }
}

#[async_trait]
impl Maintain for Flaky {
    async fn forward(&self, queues: &[QueueName], retries: RetryOrder) -> Result<Forwarded, BrokerError> {
        self.pulse("forward").await;
        self.inner.forward(queues, retries).await
    }

    async fn wait_for_due(&self, queues: &[QueueName], limit: Duration) -> Result<Vec<QueueName>, BrokerError> {
        self.pulse("wait_for_due").await.wait_for_due(queues, limit).await
    }

    async fn extend(&self, runs: &[RunKey]) -> Vec<Result<Settled, BrokerError>> {
        self.pulse("extend").await;
        self.extensions.fetch_add(1, SeqCst);
        self.most_extended.fetch_max(runs.len(), SeqCst);
        let extended = match self.fenced.load(SeqCst) {
            true => vec![Ok(Settled::Fenced); runs.len()],
            false => self.inner.extend(runs).await,
        };
        runs.iter().zip(extended).map(|(run, answer)| self.reach(&run.queue).and(answer)).collect()
    }

    async fn extend_locks(&self, locks: &[HeldLock]) -> Result<(), BrokerError> {
        self.pulse("extend_locks").await;
        if !locks.is_empty() {
            self.take_time().await;
        }
        self.extended.lock().unwrap().extend(locks.iter().map(|lock| lock.key.clone()));
        let gate = self.extends_locks_after.lock().unwrap().take();
        if let Some(gate) = gate {
            gate.await.unwrap();
        }
        self.inner.extend_locks(locks).await
    }

    async fn recover(&self, queues: &[QueueName]) -> Result<Recovered, BrokerError> {
        self.pulse("recover").await;
        self.recoveries.fetch_add(1, SeqCst);
        self.inner.recover(queues).await
    }

    async fn sweep(&self, queue: &QueueName) -> Result<Swept, BrokerError> {
        self.pulse("sweep").await.sweep(queue).await
    }

    async fn delete_expired(&self, queue: &QueueName, limit: usize) -> Result<usize, BrokerError> {
        self.pulse("delete_expired").await;
        self.reach(queue)?;
        if self.spoils_deletes.load(SeqCst) {
            return Err(BrokerError::new(BrokerErrorKind::Corrupt, "a damaged page"));
        }
        self.inner.delete_expired(queue, limit).await
    }

    async fn trim_archive(
        &self,
        queue: &QueueName,
        max_age: Duration,
        max_size: usize,
        limit: usize,
    ) -> Result<usize, BrokerError> {
        self.pulse("trim_archive").await;
        if self.spoils_deletes.load(SeqCst) && max_size == usize::MAX {
            return Err(BrokerError::new(BrokerErrorKind::Corrupt, "a damaged page"));
        }
        self.inner.trim_archive(queue, max_age, max_size, limit).await
    }
}

impl asynq_runtime::broker::Sealed for Flaky {}

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

    fn call_limit(&self) -> Duration {
        if self.slow_calls.load(SeqCst) { Duration::from_secs(60) } else { Duration::ZERO }
    }

    fn now(&self) -> DateTime<Utc> {
        self.inner.now() + Duration::from_secs(self.seconds.load(SeqCst).into())
    }

    async fn ping(&self) -> Result<(), BrokerError> {
        self.pulse("ping").await;
        if self.refuse_pings.load(SeqCst) {
            return Err(down());
        }
        self.inner.ping().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
