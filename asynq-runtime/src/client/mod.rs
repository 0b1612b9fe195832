//! Enqueues tasks.

mod bind;
mod enqueued;
mod erased;
mod layers;
mod outcome;
mod prepare;
mod result;
#[cfg(feature = "sqlite")]
mod transaction;

use std::sync::Arc;

use self::layers::Layered;
#[cfg(feature = "sqlite")]
pub(crate) use self::result::Value;
pub use self::{
    enqueued::Enqueued,
    layers::EnqueueService,
    outcome::{NotDone, Outcome},
    result::ResultError,
};
pub(crate) use self::{
    erased::{Erased, Typed},
    prepare::lock_key,
};
use crate::{
    broker::{Broker, BrokerError, BrokerErrorKind, Placed},
    connect,
    job::{ArgumentShape, BoxFuture, DueShapes, EnqueueError, IntoTask, Job, JobBuilder, JobContext, PreparedTask},
    task::{TaskIds, TaskInfo, TaskState},
};

#[cfg(feature = "sqlite")]
pub use self::transaction::EnqueueRow;

/// Enqueues tasks on one broker. Cheap to clone; clones share the connection.
///
/// ```
/// # use asynq_runtime::prelude::*;
/// #[job]
/// async fn greet(name: String) {}
///
/// # async fn produce() -> Result<(), BoxError> {
/// let client = Client::connect("redis://127.0.0.1:6379").await?;
/// let task = greet::enqueue(&client, "ann").await?;
/// println!("{} is {}", task.id, task.state);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[doc(alias("producer", "publisher"))]
pub struct Client {
    broker: Arc<dyn Broker>,
    pub(crate) payload_limit: usize,
    layered: Option<Layered>,
}

impl Client {
    /// Largest payload unless [`payload_limit`](Self::payload_limit) says otherwise: 1 MiB.
    pub const DEFAULT_PAYLOAD_LIMIT: usize = 1024 * 1024;
    /// Largest value of [`payload_limit`](Self::payload_limit): 64 MiB.
    pub const MAX_PAYLOAD_LIMIT: usize = 64 * 1024 * 1024;

    /// Connects to the broker at `url`, such as `redis://127.0.0.1:6379` or `sqlite://asynq.db`. The forms of URLs and their
    /// parameters are listed at `RedisBroker::connect` and `SqliteBroker::open` in [`broker`](crate::broker). A client outlives the
    /// runtime that connected it, and works in any other one with timers and I/O (`enable_all`); outside of such a runtime its calls panic,
    /// and so do those by the handle of a runtime that has ended, some once the task is stored. A child process that was forked
    /// connects a client of its own: it has none of the threads of the client that its parent connected.
    ///
    /// # Errors
    ///
    /// The URL cannot be used, the broker is not reachable or refuses the password, or there is no tokio runtime here. The text never
    /// shows a password.
    pub async fn connect(url: &str) -> Result<Self, BrokerError> {
        Ok(Self::new(connect::connect(url).await?))
    }

    /// Connects as [`connect`](Self::connect) does, unless `url` is a SQLite file that does not exist: for programs that must not make
    /// one. A file that exists is prepared as by [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect), or there is no such file.
    pub async fn connect_existing(url: &str) -> Result<Self, BrokerError> {
        Ok(Self::new(connect::connect_existing(url).await?))
    }

    /// Connects to the broker that `ASYNQ_URL` names, as the worker does; `sqlite://asynq.db` if it is not set.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn from_env() -> Result<Self, BrokerError> {
        Self::connect(&connect::url_from_env()?).await
    }

    /// Returns a client of a broker that is connected already.
    pub fn new(broker: Arc<dyn Broker>) -> Self {
        Self { broker, payload_limit: Self::DEFAULT_PAYLOAD_LIMIT, layered: None }
    }

    /// Sets the largest payload in bytes, at most [`MAX_PAYLOAD_LIMIT`](Self::MAX_PAYLOAD_LIMIT).
    #[must_use]
    pub fn payload_limit(mut self, bytes: usize) -> Self {
        self.payload_limit = bytes.min(Self::MAX_PAYLOAD_LIMIT);
        match self.layered.take() {
            Some(layered) => self.wrapped(layered.wraps),
            None => self,
        }
    }

    /// Checks that the broker answers.
    ///
    /// # Errors
    ///
    /// The broker does not answer.
    pub async fn ping(&self) -> Result<(), BrokerError> {
        self.broker.ping().await
    }

    /// Enqueues one task: a job, a builder or a [`RawTask`](crate::RawTask), which is known by name and bytes alone. The future holds
    /// all that it needs, so that it can be spawned. One that is dropped before its end may have stored the task: spawn it where the
    /// caller may go away, as the handler of a web server does with its client, or give the task an id.
    ///
    /// # Errors
    ///
    /// The task was refused, or the broker failed.
    pub fn enqueue(&self, task: impl IntoTask) -> BoxFuture<'static, Result<TaskInfo, EnqueueError>> {
        let (client, task) = (self.clone(), task.into_task());
        Box::pin(async move { client.send(task).await })
    }

    /// Enqueues many tasks of one type in few round trips, or one for each through [layers](Self::layer); one outcome per item, in
    /// order. For jobs of several types there is [`enqueue_all`](Self::enqueue_all).
    ///
    /// All tasks and all outcomes of the call are in memory at once: give it some thousands at a time. A future that is dropped may have
    /// stored a part of them.
    ///
    /// # Errors
    ///
    /// The outer error means that nothing was sent: the broker did not answer a ping. Afterwards each item has its own.
    #[doc(alias("bulk", "push_bulk", "enqueue_batch"))]
    pub fn enqueue_many<T: IntoTask>(
        &self,
        tasks: impl IntoIterator<Item = T>,
    ) -> BoxFuture<'static, Result<Vec<Result<TaskInfo, EnqueueError>>, BrokerError>> {
        self.enqueue_all(tasks.into_iter().map(T::into_task))
    }

    /// Enqueues many tasks of any types, with `.into()` on each, in few round trips, or one for each through [layers](Self::layer);
    /// one outcome per item, in order.
    ///
    /// ```
    /// # use asynq_runtime::prelude::*;
    /// #[job]
    /// async fn welcome(to: String) {}
    ///
    /// #[job(queue = "low")]
    /// async fn count_users() {}
    ///
    /// # async fn produce(client: Client) -> Result<(), BoxError> {
    /// for outcome in client.enqueue_all([welcome::job("ann").into(), count_users {}.into()]).await? {
    ///     outcome?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// All tasks and all outcomes of the call are in memory at once: give it some thousands at a time. A future that is dropped may have
    /// stored a part of them.
    ///
    /// # Errors
    ///
    /// The outer error means that nothing was sent: the broker did not answer a ping. Afterwards each item has its own.
    pub fn enqueue_all(
        &self,
        tasks: impl IntoIterator<Item = PreparedTask>,
    ) -> BoxFuture<'static, Result<Vec<Result<TaskInfo, EnqueueError>>, BrokerError>> {
        let (client, tasks) = (self.clone(), tasks.into_iter().collect::<Vec<PreparedTask>>());
        Box::pin(async move {
            if let Err(error) = client.broker.ping().await {
                crate::metrics::enqueue_failed(&error, tasks.len());
                return Err(error);
            }
            Ok(match &client.layered {
                Some(layered) => layered.enqueue_all(tasks).await,
                None => client.send_all(tasks).await,
            })
        })
    }

    /// Returns the broker, for calls that this client does not offer.
    pub fn broker(&self) -> &Arc<dyn Broker> {
        &self.broker
    }

    async fn send(&self, task: PreparedTask) -> Result<TaskInfo, EnqueueError> {
        match &self.layered {
            Some(layered) => layered.enqueue(task).await,
            None => self.send_all(vec![task]).await.pop().unwrap_or_else(|| Err(unanswered())),
        }
    }

    async fn send_all(&self, tasks: Vec<PreparedTask>) -> Vec<Result<TaskInfo, EnqueueError>> {
        let now = self.broker.now();
        let shapes: Vec<ArgumentShape> = tasks.iter().filter_map(PreparedTask::shape).collect();
        let (mut outcomes, mut ids) = (Vec::with_capacity(tasks.len()), TaskIds::default());
        let new_task = |task| match prepare::new_task(task, now, self.payload_limit, &mut ids) {
            Ok(new) => {
                let (id, queue) = (new.id.clone(), new.queue.clone());
                let mut info = TaskInfo::named(id, queue, &new.message, TaskState::Pending);
                info.expires = new.extra.expires();
                outcomes.push(Ok(info));
                Some(new)
            }
            Err(error) => {
                outcomes.push(Err(error));
                None
            }
        };
        let mut prepared = tasks.into_iter().filter_map(new_task).peekable();
        let answers = if prepared.peek().is_some() {
            let shapes = DueShapes::among(&*self.broker, shapes);
            // Both calls run at the same time, so that the first enqueue of a process is not slower for the second call. Where the kept
            // shape has to be joined, that one takes a round trip more.
            tokio::join!(self.broker.enqueue_each(&mut prepared), shapes.keep()).0
        } else {
            // Nothing is sent, so that a wrong task is refused at once, also while the broker is away.
            Vec::new()
        };
        // A task that a broker left out against its contract gets its outcome, too: that there was no answer.
        prepared.for_each(drop);
        let mut answers = answers.into_iter();
        for outcome in &mut outcomes {
            let Ok(info) = outcome else { continue };
            match answers.next() {
                Some(Ok(placed)) => note_placed(info, placed),
                Some(Err(refused)) => {
                    *outcome = Err(EnqueueError::refused(refused, info.queue.clone(), info.id.clone()));
                }
                None => *outcome = Err(unanswered()),
            }
        }
        crate::metrics::enqueued(&outcomes);
        outcomes
    }
}

/// Adds the facts to `info` that the broker returned for a task that it took.
fn note_placed(info: &mut TaskInfo, placed: Placed) {
    info.state = placed.state;
    // It is unknown when a group will be aggregated.
    info.next_process_at = (placed.state != TaskState::Aggregating).then_some(placed.process_at);
    if let Some(id) = placed.replaced {
        (info.id, info.replaced) = (id, true);
    }
}

/// Returns the error for a broker that breaks its contract and leaves an answer out: the task must not look stored.
fn unanswered() -> EnqueueError {
    EnqueueError::Broker(BrokerError::new(BrokerErrorKind::Unexpected, "the broker gave no answer for the task"))
}

/// `.enqueue(&client)` on a job's value; in the prelude.
pub trait Enqueue: Job {
    /// Enqueues the job with its declared options. The future holds all that it needs, so that it can be spawned; one that is dropped may
    /// have stored the task ([`Client::enqueue`]).
    ///
    /// # Errors
    ///
    /// The task was refused, or the broker failed.
    fn enqueue(self, client: &Client) -> BoxFuture<'static, Result<Enqueued<Self>, EnqueueError>> {
        self.into_job().enqueue(client)
    }

    /// Returns the job, ready for per-call options.
    fn into_job(self) -> JobBuilder<Self> {
        JobBuilder::new(self)
    }
}

impl<J: Job> Enqueue for J {}

impl JobContext {
    /// Returns a client of the very broker that this task came from: a job that enqueues another task with it never sends that
    /// elsewhere, whatever the environment says. The client has the default payload limit and no layers.
    ///
    /// # Errors
    ///
    /// The context is [detached](Self::detached): it belongs to no broker.
    pub fn client(&self) -> Result<Client, BrokerError> {
        let detached = || {
            let text = "this context is detached and belongs to no broker; test the job with a `TestApp`";
            BrokerError::new(BrokerErrorKind::Config, text)
        };
        self.broker().map(|broker| Client::new(Arc::clone(broker))).ok_or_else(detached)
    }
}
