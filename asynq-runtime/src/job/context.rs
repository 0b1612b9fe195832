//! The context of a running job: its task, its attempt, and reports about itself.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::{
    Codec,
    blocking::BlockingPool,
    cancel::Cancel,
    state::{State, StateMap},
};
use crate::{
    broker::{Broker, BrokerError, BrokerErrorKind, RunKey, RunToken, Settled},
    task::{Progress, QueueName, TaskId, TaskMessage},
};

/// One attempt at one task, as its job sees it. Clones refer to the same attempt.
///
/// ```
/// # use asynq_runtime::prelude::*;
/// # #[job]
/// # async fn count_rows(file: String) {}
/// #[job]
/// async fn import(ctx: &JobContext, file: String) -> JobResult {
///     println!("attempt {} at task {}", ctx.attempt(), ctx.id());
///     ctx.progress(0.5, "half of it").await?;
///     // On the broker that this task came from.
///     count_rows::enqueue(&ctx.client()?, file).await?;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct JobContext(Arc<Attempt>);

struct Attempt {
    parts: ContextParts,
    /// The values that layers have put beside the attempt.
    beside: Mutex<StateMap>,
}

/// The parts of a [`JobContext`].
pub struct ContextParts {
    /// The run.
    pub run: RunKey,
    /// When the broker gave the task to this run, by its clock.
    pub taken_at: DateTime<Utc>,
    /// The task as it was dequeued.
    pub message: Arc<TaskMessage>,
    /// How often a worker died while it ran this task.
    pub crashes: u32,
    /// How the job encodes its results; JSON for a handler.
    pub codec: Codec,
    /// When this attempt must end: by the broker's clock at the beginning of the attempt, and by one that cannot be set.
    pub deadline: Option<(DateTime<Utc>, Instant)>,
    /// Cancelled when the attempt should stop.
    pub cancel: Arc<Cancel>,
    /// Cancelled when the server begins to leave.
    pub stopping: Arc<CancellationToken>,
    /// The server's shared states.
    pub states: Arc<StateMap>,
    /// Where blocking jobs run.
    pub blocking: BlockingPool,
    /// The broker that stores progress; `None` in a detached context.
    pub broker: Option<Arc<dyn Broker>>,
}

impl JobContext {
    /// The header in which a task that `#[job(aggregates = …)]` made carries the name of its group.
    pub(crate) const GROUP_HEADER: &'static str = "asynq:group";

    /// Returns a context of its parts; the server makes one per attempt.
    #[doc(hidden)]
    pub fn new(parts: ContextParts) -> Self {
        Self(Arc::new(Attempt { parts, beside: Mutex::default() }))
    }

    /// Returns a context that belongs to no task, for calling a job's function directly in a test. It has no states, is never
    /// cancelled, and discards progress.
    pub fn detached() -> Self {
        Self::detached_with(StateMap::default())
    }

    /// [`detached`](Self::detached) with states.
    pub fn detached_with(states: StateMap) -> Self {
        Self::new(ContextParts {
            run: RunKey {
                queue: QueueName::from_wire("default"),
                id: TaskId::from_wire("detached"),
                token: RunToken(0),
                server: 0,
                row: 0,
            },
            taken_at: DateTime::UNIX_EPOCH,
            message: Arc::default(),
            crashes: 0,
            codec: Codec::default(),
            deadline: None,
            cancel: Arc::default(),
            stopping: Arc::default(),
            states: Arc::new(states),
            blocking: BlockingPool::default(),
            broker: None,
        })
    }

    /// Returns the name of the job, which is the task's type on the wire.
    pub fn name(&self) -> &str {
        &self.0.parts.message.r#type
    }

    /// Returns the encoded arguments.
    pub fn payload(&self) -> &Bytes {
        &self.0.parts.message.payload
    }

    /// Returns whether the value that the job returns is kept: with its task after success, or by a caller that runs it without
    /// a task.
    pub(crate) fn keeps_result(&self) -> bool {
        self.0.parts.broker.is_none() || self.0.parts.message.retention > 0
    }

    /// Returns the id of the task.
    pub fn id(&self) -> &TaskId {
        &self.0.parts.run.id
    }

    /// Returns the queue of the task.
    pub fn queue(&self) -> &QueueName {
        &self.0.parts.run.queue
    }

    /// Returns how many retries the task had spent before this attempt: one for each failure, but none for one that archived it.
    pub fn retried(&self) -> u32 {
        self.0.parts.message.spent_retries()
    }

    /// Returns the number of this attempt, counted from 1: one more than [`retried`](Self::retried). An attempt after a
    /// snooze, a deploy or the death of a worker has the number of the one before, because none of them spends a retry; so has the first
    /// one after a person ran an archived task.
    pub fn attempt(&self) -> u32 {
        self.retried().saturating_add(1)
    }

    /// Returns how often the task may be retried.
    pub fn max_retry(&self) -> u32 {
        self.0.parts.message.max_retry()
    }

    /// Returns how often a worker died while it ran this task, since an attempt last ended by itself.
    pub fn crashes(&self) -> u32 {
        self.0.parts.crashes
    }

    /// Returns when this attempt must end; `None` only in a [detached](Self::detached) context and in the job's own function for archived
    /// tasks (`on_archive`).
    pub fn deadline(&self) -> Option<DateTime<Utc>> {
        self.0.parts.deadline.map(|(at, _)| at)
    }

    /// Returns the time that the attempt has left, which no change of the broker's clock moves.
    pub(crate) fn remaining(&self) -> Duration {
        let deadline = self.0.parts.deadline;
        deadline.map(|(_, ends)| ends.saturating_duration_since(Instant::now())).unwrap_or_default()
    }

    /// Returns every header of the task, in the order in which they were given; Go writes them in any order.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.parts.message.headers.iter().map(|header| (header.key(), header.value()))
    }

    /// Returns the value of a header given at the enqueue.
    pub fn header(&self, key: &str) -> Option<&str> {
        self.0.parts.message.header(key)
    }

    /// Returns the group that the task was in, or whose tasks it was made of (`#[job(aggregates = …)]`).
    pub fn group(&self) -> Option<&str> {
        let own = Some(self.0.parts.message.group_key.as_str()).filter(|group| !group.is_empty());
        own.or_else(|| self.header(Self::GROUP_HEADER))
    }

    /// Puts a value beside this attempt, for inner layers and the job. A second value of the same type replaces the first.
    pub fn insert<T: Send + Sync + 'static>(&self, value: T) {
        self.0.beside.lock().insert(value);
    }

    /// Returns the value of type `T` that an outer layer has put beside this attempt.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<State<T>> {
        self.0.beside.lock().get::<T>()
    }

    /// Returns the value of type `T` beside this attempt, which the first caller makes.
    pub(crate) fn extension_or_default<T: Default + Send + Sync + 'static>(&self) -> State<T> {
        self.0.beside.lock().get_or_default()
    }

    /// Returns when the broker gave the task to this run, in nanoseconds by its clock, on SQLite in whole milliseconds. The number
    /// is never smaller than that of an earlier run of this task, as long as the broker's clock does not go back, as after a
    /// failover, or a move of the task, to a host whose clock is behind: give it to a store that can refuse an older number, and a worker that was thought
    /// dead cannot overwrite the data of its successor.
    pub fn fence(&self) -> i64 {
        self.0.parts.taken_at.timestamp_nanos_opt().unwrap_or(i64::MAX)
    }

    /// Returns an id that no other run of any task has (`QUEUE:ID:TOKEN`), which tells runs apart. A key that keeps something from happening twice
    /// is the same in each run: [`id`](Self::id).
    pub fn run_id(&self) -> String {
        format!("{}:{}:{}", self.0.parts.run.queue, self.0.parts.run.id, self.0.parts.run.token)
    }

    /// Returns whether the attempt should stop: it was cancelled, its time is over, the worker lost it, or is leaving and its shutdown
    /// timeout is over. An `async` job is dropped at its next await anyway; a blocking one must ask here, and hears of the beginning of a
    /// shutdown by [`is_stopping`](Self::is_stopping). A job that still returns `Ok` has succeeded: where its work is not done, it
    /// must return an error.
    pub fn is_cancelled(&self) -> bool {
        self.0.parts.cancel.is_cancelled()
    }

    /// Waits until the attempt should stop.
    pub async fn cancelled(&self) {
        self.0.parts.cancel.cancelled().await;
    }

    /// Returns whether the worker is leaving, as on every deploy, or the attempt [should stop](Self::is_cancelled) for any
    /// other reason: the moment to save a [`Checkpoint`](super::Checkpoint) and return, best with `JobError::snooze("0s")`. That
    /// lets a later worker go on after a deploy; of an attempt that was cancelled or took too long a snooze is a failure. A job that
    /// still runs when the shutdown timeout of the server is over is stopped and requeued.
    pub fn is_stopping(&self) -> bool {
        self.0.parts.stopping.is_cancelled() || self.is_cancelled()
    }

    /// Waits until the worker is leaving or the attempt should stop.
    pub async fn stopping(&self) {
        tokio::select! {
            () = self.0.parts.stopping.cancelled() => {}
            () = self.cancelled() => {}
        }
    }

    /// Returns the state of type `T` that the server was given.
    pub fn state<T: Send + Sync + 'static>(&self) -> Option<State<T>> {
        self.0.parts.states.get::<T>()
    }

    /// Reports how far the job is: `fraction` from 0.0 to 1.0, with a short text for people, of which 1 KiB is kept. A report for
    /// which the broker cannot be reached is left out, because it is not worth a failed attempt.
    ///
    /// # Errors
    ///
    /// The broker refused the report, or the task was taken over or deleted meanwhile ([`BrokerErrorKind::RunEnded`]): then stop.
    pub async fn progress(&self, fraction: f64, note: impl Into<String>) -> Result<(), BrokerError> {
        let Some(broker) = &self.0.parts.broker else { return Ok(()) };
        match broker.write_progress(&self.0.parts.run, &Progress::new(fraction, note)).await {
            Ok(Settled::Ok) => Ok(()),
            Ok(Settled::Fenced | Settled::Gone) => {
                let reason = "this run has ended: the task was taken over or deleted";
                Err(BrokerError::new(BrokerErrorKind::RunEnded, reason))
            }
            Err(error) if error.is_unavailable() => {
                log!(debug, "progress is not reported: {error}");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// [`progress`](Self::progress) for a blocking job.
    ///
    /// # Errors
    ///
    /// As [`progress`](Self::progress); also when called outside a tokio runtime.
    ///
    /// # Panics
    ///
    /// In async code, where [`progress`](Self::progress) is the call.
    pub fn progress_blocking(&self, fraction: f64, note: impl Into<String>) -> Result<(), BrokerError> {
        if self.0.parts.broker.is_none() {
            return Ok(());
        }
        block_on("progress", self.progress(fraction, note))
    }

    pub(crate) fn broker(&self) -> Option<&Arc<dyn Broker>> {
        self.0.parts.broker.as_ref()
    }

    pub(super) fn run(&self) -> &RunKey {
        &self.0.parts.run
    }

    pub(super) fn codec(&self) -> Codec {
        self.0.parts.codec
    }

    pub(crate) fn blocking_pool(&self) -> &BlockingPool {
        &self.0.parts.blocking
    }
}

/// Runs a call of the broker on the thread of a blocking job. An error outside of a runtime names the call.
pub(super) fn block_on<T, E: From<BrokerError>>(
    call: &str,
    future: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let runtime = Handle::try_current().map_err(|error| {
        BrokerError::with_source(BrokerErrorKind::Config, format!("{call} needs the worker's runtime"), error)
    })?;
    runtime.block_on(future)
}

impl fmt::Debug for JobContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobContext")
            .field("run", &self.0.parts.run)
            .field("type", &self.0.parts.message.r#type)
            .finish()
    }
}

partial_debug!(ContextParts { run, states, .. });

#[cfg(test)]
mod tests {
    use std::{
        future::{Future as _, poll_fn},
        sync::mpsc,
        task::Poll,
    };

    use asynq_test_support::eventually_blocking;

    use super::{super::run_blocking, *};
    use crate::task::Header;

    fn context(message: TaskMessage) -> JobContext {
        let mut states = StateMap::default();
        states.insert(7_u8);
        JobContext::new(ContextParts {
            run: RunKey {
                queue: QueueName::from_wire("mails"),
                id: TaskId::from_wire("t-1"),
                token: RunToken(1_893_553_445_678_912_345),
                server: 0,
                row: 0,
            },
            taken_at: DateTime::from_timestamp_nanos(1_893_553_450_000_000_000),
            message: Arc::new(message),
            crashes: 2,
            codec: Codec::default(),
            deadline: None,
            cancel: Arc::default(),
            stopping: Arc::default(),
            states: Arc::new(states),
            blocking: BlockingPool::default(),
            broker: None,
        })
    }

    #[test]
    fn it_knows_the_task_and_the_run() {
        let headers = vec![Header::new("trace", "abc"), Header::new("empty", "")];
        let ctx = context(TaskMessage { retry: 5, retried: 3, headers, ..TaskMessage::default() });
        assert_eq!((ctx.id().as_str(), ctx.queue().as_str()), ("t-1", "mails"));
        assert_eq!((ctx.retried(), ctx.max_retry(), ctx.crashes()), (3, 5, 2));
        assert_eq!((ctx.header("trace"), ctx.header("empty"), ctx.header("none")), (Some("abc"), Some(""), None));
        assert_eq!(ctx.headers().collect::<Vec<_>>(), [("trace", "abc"), ("empty", "")]);
        assert_eq!(ctx.run_id(), "mails:t-1:1893553445678912345");
        assert_eq!(
            ctx.fence(),
            1_893_553_450_000_000_000,
            "the call that took the task may have begun before other runs of it"
        );
        assert_eq!(ctx.state::<u8>().map(|state| *state), Some(7));
        assert!(ctx.state::<u16>().is_none());
        assert_eq!(ctx.group(), None);
    }

    #[test]
    fn it_knows_the_group_that_a_task_was_in_or_was_made_of() {
        let ctx = context(TaskMessage { group_key: "mails".into(), ..TaskMessage::default() });
        assert_eq!(ctx.group(), Some("mails"));
        let headers = vec![Header::new(JobContext::GROUP_HEADER, "digest")];
        assert_eq!(context(TaskMessage { headers, ..TaskMessage::default() }).group(), Some("digest"));
    }

    #[test]
    fn counters_that_no_program_should_write_are_zero() {
        let ctx = context(TaskMessage { retry: -1, retried: -3, ..TaskMessage::default() });
        assert_eq!((ctx.retried(), ctx.max_retry()), (0, 0));
    }

    #[tokio::test]
    async fn clones_are_cancelled_together() {
        let ctx = context(TaskMessage::default());
        let other = ctx.clone();
        assert!(!other.is_cancelled());
        ctx.0.parts.cancel.cancel();
        other.cancelled().await;
        assert!(other.is_cancelled());
    }

    #[tokio::test]
    async fn a_result_is_owed_until_it_is_taken_or_unwanted_and_its_thread_has_returned_by_then() {
        for round in 0..100 {
            let (ctx, (open, receiver)) = (context(TaskMessage::default()), mpsc::channel::<()>());
            // A task that polls without end is deferred by tokio now and then.
            tokio::task::yield_now().await;
            let mut job = Box::pin(run_blocking(&ctx, move |_| Ok((round, receiver.recv().is_ok()))));
            let looked = poll_fn(|cx| Poll::Ready(job.as_mut().poll(cx))).await;
            let pool = ctx.blocking_pool();
            assert_eq!((looked.is_pending(), pool.busy(), pool.owes_a_result()), (true, 1, true), "round {round}");
            open.send(()).unwrap();
            // The thread drops its clone of the context after it has sent its result.
            let has_returned = || (Arc::strong_count(&ctx.0) == 1).then_some(());
            eventually_blocking("the thread has returned", has_returned);
            assert_eq!((pool.busy(), pool.owes_a_result()), (0, true), "round {round}");
            if round % 2 == 0 {
                assert!(matches!(job.await, Ok(result) if result == (round, true)));
            } else {
                drop(job);
            }
            assert!(!pool.owes_a_result(), "round {round}");
        }
    }

    #[tokio::test]
    async fn a_context_learns_that_the_worker_leaves_before_it_is_cancelled() {
        for what in [|ctx: &JobContext| ctx.0.parts.stopping.cancel(), |ctx: &JobContext| ctx.0.parts.cancel.cancel()] {
            let ctx = context(TaskMessage::default());
            assert!(!ctx.is_stopping());
            what(&ctx);
            ctx.stopping().await;
            assert!(ctx.is_stopping());
        }
        let ctx = context(TaskMessage::default());
        ctx.0.parts.stopping.cancel();
        assert!(!ctx.is_cancelled());
    }

    #[test]
    fn an_extension_of_an_attempt_is_found_by_its_type() {
        let ctx = context(TaskMessage::default());
        ctx.insert("span");
        let other = ctx.clone();
        other.insert(7_u16);
        other.insert(8_u16);
        assert_eq!(ctx.extension::<u16>().map(|value| *value), Some(8));
        assert_eq!(ctx.extension::<&str>().map(|value| *value), Some("span"));
        // A state of the server is not such a value.
        assert!(ctx.extension::<u8>().is_none() && ctx.state::<u16>().is_none());
    }

    #[tokio::test]
    async fn a_detached_one_swallows_progress() {
        let ctx = JobContext::detached();
        assert!(ctx.progress(0.5, "half").await.is_ok());
        assert!(ctx.progress_blocking(1.0, "done").is_ok());
    }
}
