//! A task that was enqueued, with the type of its job: it can be awaited.

use std::{
    fmt,
    marker::PhantomData,
    ops::Deref,
    time::{Duration, Instant},
};

use bytes::Bytes;

use super::{
    Client,
    outcome::Outcome,
    result::{ResultError, Value, read},
};
use crate::{
    broker::{Retries, TaskEnd},
    job::{BoxFuture, EnqueueError, IntoSpan, Job, JobBuilder, PreparedTask, ReadResult, is_named},
    task::{Ending, QueueName, TaskId, TaskInfo, TaskState},
};

/// A task of the job `J` that was enqueued; dereferences to its [`TaskInfo`] of that moment.
///
/// ```standalone_crate
/// use asynq_runtime::{Outcome, prelude::*};
///
/// #[job]
/// async fn double(n: u64) -> JobResult<u64> {
///     Ok(n * 2)
/// }
///
/// # fn main() -> Result<(), BoxError> {
/// # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
/// let running = Server::builder("sqlite::memory:").build().await?.start().await?;
///
/// let task = double::job(21).awaited().enqueue(&running.client()).await?;
/// match task.wait("30s").await? {
///     Outcome::Done(doubled) => assert_eq!(doubled, 42),
///     Outcome::StillRunning => println!("task {} takes longer", task.id),
///     other => println!("there is no result: {other:?}"),
/// }
/// # running.shutdown().await?;
/// # Ok(())
/// # })
/// # }
/// ```
pub struct Enqueued<J> {
    info: TaskInfo,
    client: Client,
    job: PhantomData<fn() -> J>,
}

impl<J> Enqueued<J> {
    pub(super) fn new(info: TaskInfo, client: Client) -> Self {
        Self { info, client, job: PhantomData }
    }

    /// Returns the id of the task that was waiting already and has these arguments and this time now (`debounce`, `or_replace`);
    /// `None` where the enqueue stored a new task.
    pub fn replaced(&self) -> Option<&TaskId> {
        self.info.replaced.then_some(&self.info.id)
    }

    /// Returns the task as it was when it was enqueued.
    pub fn into_info(self) -> TaskInfo {
        self.info
    }
}

impl<J: Job> Enqueued<J> {
    /// Waits until the task has ended, at most for `limit`: a `Duration`, or text such as `"30s"`. Any number of tasks may
    /// be awaited at a time. Where the task has ended already, or `limit` is zero, the answer comes at once.
    ///
    /// Nothing is polled: the broker notifies of the end, whichever program ran the task. If the broker is unreachable
    /// meanwhile, it is asked again when it is back. When `limit` is over the broker is asked once more, and has a second to
    /// answer, also after a shorter `limit`; one of zero asks once, as any call does.
    ///
    /// # Errors
    ///
    /// `limit` is not a length of time, the broker refused the question or was unreachable when the time was over, or the job
    /// succeeded and left something that is not a result of `J`.
    pub fn wait(&self, limit: impl IntoSpan) -> BoxFuture<'_, Result<Outcome<Value<J>>, ResultError>>
    where
        Value<J>: ReadResult,
    {
        let limit = span(limit);
        Box::pin(async move {
            let end = self.client.broker.wait_for_end(&self.info.queue, &self.info.id, limit?).await?;
            outcome(end, read::<J>)
        })
    }

    /// Returns the result of the task, if the task has ended with success by now.
    ///
    /// # Errors
    ///
    /// A [`ResultError`] that says why there is no result.
    pub async fn result(&self) -> Result<Value<J>, ResultError>
    where
        Value<J>: ReadResult,
    {
        self.client.result_in::<J>(&self.info.queue, &self.info.id).await
    }
}

impl Client {
    /// Returns a task that was enqueued before as one of the job `J`, such as one of [`enqueue_many`](Self::enqueue_many).
    pub fn handle<J: Job>(&self, task: TaskInfo) -> Enqueued<J> {
        Enqueued::new(task, self.clone())
    }

    /// Returns the kept result of a task in any queue: first it is looked for in the queue that the job declares, then in all
    /// others. See [`result_in`](Self::result_in). To wait for it, see [`wait`](Self::wait).
    ///
    /// # Errors
    ///
    /// A [`ResultError`]; [`Nowhere`](ResultError::Nowhere) if no queue has such a task.
    pub async fn result<J: Job>(&self, id: impl AsRef<str>) -> Result<Value<J>, ResultError>
    where
        Value<J>: ReadResult,
    {
        read::<J>(self.find::<J>(id).await?.into_info())
    }

    /// Finds a task of the job `J` by its id in any queue: first in the queue that the job declares, then in all others.
    ///
    /// # Errors
    ///
    /// [`ResultError::Nowhere`] if no queue has such a task; [`ResultError::OtherJob`] if only tasks of other jobs have this
    /// id; or the broker failed.
    pub async fn find<J: Job>(&self, id: impl AsRef<str>) -> Result<Enqueued<J>, ResultError> {
        let (declared, id) = (QueueName::from_wire(J::OPTIONS.queue), TaskId::from_wire(id.as_ref()));
        let mut other = self.broker.task(&declared, &id).await?;
        if let Some(task) = other.take_if(|task| is_named::<J>(&task.r#type)) {
            return Ok(self.handle(task));
        }
        for queue in self.broker.queues_of(&id).await?.into_iter().filter(|queue| *queue != declared) {
            match self.broker.task(&queue, &id).await? {
                Some(task) if is_named::<J>(&task.r#type) => return Ok(self.handle(task)),
                task => other = other.or(task),
            }
        }
        Err(match other {
            Some(other) => ResultError::OtherJob { id, expected: J::NAME, found: other.r#type },
            None => ResultError::Nowhere { id },
        })
    }

    /// Waits for the end of a task that is known by its id alone, such as the one that a web request names. The task is
    /// looked for in the queue that the job `J` declares, and then in all others, within the same `limit`. See [`Enqueued::wait`].
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find), and then as [`Enqueued::wait`].
    pub fn wait<J: Job>(
        &self,
        id: impl AsRef<str>,
        limit: impl IntoSpan,
    ) -> BoxFuture<'_, Result<Outcome<Value<J>>, ResultError>>
    where
        Value<J>: ReadResult,
    {
        let (id, limit) = (id.as_ref().to_owned(), span(limit));
        Box::pin(async move {
            let (limit, begun) = (limit?, Instant::now());
            let task = self.find_within::<J>(&id, limit).await?;
            let (state, left) = (task.state, limit.saturating_sub(begun.elapsed()));
            let end = match state {
                TaskState::Completed | TaskState::Archived => TaskEnd::Stored(Box::new(task.into_info())),
                _ if left.is_zero() => TaskEnd::NotYet(state),
                // A wait in which less than a second is left lets the broker answer later; the time of the whole wait is over then, and
                // the state is still new. After a longer outage the task may have ended.
                _ => match self.broker.wait_for_end(&task.queue, &task.id, left).await {
                    Err(error) if left < Retries::TIME_TO_ANSWER && error.is_unavailable() => TaskEnd::NotYet(state),
                    end => end?,
                },
            };
            outcome(end, read::<J>)
        })
    }

    /// Finds a task as [`find`](Self::find) does, and waits for a broker that is away until `limit` is over.
    async fn find_within<J: Job>(&self, id: &str, limit: Duration) -> Result<Enqueued<J>, ResultError> {
        let mut retries = Retries::within(limit);
        loop {
            let search = async {
                match self.find::<J>(id).await {
                    Err(ResultError::Broker(error)) => Err(error),
                    found => Ok(found),
                }
            };
            match retries.ask(search).await {
                Some(Ok(found)) => return found,
                Some(Err(error)) => retries.after(error).await?,
                None => return Err(Retries::no_answer().into()),
            }
        }
    }

    /// Waits for the end of a task whose type has no job here, and returns its result as stored. See [`Enqueued::wait`].
    ///
    /// # Errors
    ///
    /// As [`Enqueued::wait`]. The result of a task that succeeded without one is empty.
    pub fn wait_raw<'a>(
        &'a self,
        task: &'a TaskInfo,
        limit: impl IntoSpan,
    ) -> BoxFuture<'a, Result<Outcome<Bytes>, ResultError>> {
        let limit = span(limit);
        Box::pin(async move {
            let end = self.broker.wait_for_end(&task.queue, &task.id, limit?).await?;
            outcome(end, |task| Ok(task.result.unwrap_or_default()))
        })
    }
}

fn span(limit: impl IntoSpan) -> Result<Duration, ResultError> {
    limit.into_span().map_err(|error| ResultError::Limit { reason: error.to_string() })
}

fn outcome<T>(end: TaskEnd, read: impl FnOnce(TaskInfo) -> Result<T, ResultError>) -> Result<Outcome<T>, ResultError> {
    Ok(match end {
        TaskEnd::Stored(task) => match (task.state, task.ending) {
            (_, Ending::Revoked) => Outcome::Revoked,
            (_, Ending::Expired) => Outcome::Expired,
            (TaskState::Archived, _) => Outcome::Archived(task.last_error.unwrap_or_default()),
            _ => Outcome::Done(read(*task)?),
        },
        TaskEnd::Deleted => Outcome::Deleted,
        TaskEnd::Gone => Outcome::Gone,
        TaskEnd::NotYet(_) => Outcome::StillRunning,
    })
}

impl<J: Job> JobBuilder<J> {
    /// Enqueues the job with the options set so far. The future holds all that it needs, so that it can be spawned; one that is dropped
    /// may have stored the task ([`Client::enqueue`]).
    ///
    /// # Errors
    ///
    /// An option is wrong, the task was refused, or the broker failed.
    pub fn enqueue(self, client: &Client) -> BoxFuture<'static, Result<Enqueued<J>, EnqueueError>> {
        let (client, task) = (client.clone(), PreparedTask::from(self));
        Box::pin(async move { Ok(Enqueued::new(client.send(task).await?, client)) })
    }
}

impl<J> Deref for Enqueued<J> {
    type Target = TaskInfo;

    fn deref(&self) -> &TaskInfo {
        &self.info
    }
}

impl<J> Clone for Enqueued<J> {
    fn clone(&self) -> Self {
        Self::new(self.info.clone(), self.client.clone())
    }
}

impl<J> fmt::Debug for Enqueued<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Enqueued").field(&self.info).finish()
    }
}
