//! Reads and repairs queues and tasks, as asynq's inspector does, without its flaws.
//!
//! ```no_run
//! use asynq_runtime::{inspector::Force, prelude::*};
//!
//! # async fn look(client: &Client) -> Result<(), BoxError> {
//! let inspector = client.inspector();
//! for queue in inspector.queues().await? {
//!     println!("{}: {} tasks, the next one waits for {:?}", queue.name, queue.size, queue.latency);
//! }
//! // One task, one page, or all of them, in slices.
//! inspector.run("default", "some-id").await?;
//! let page = inspector.tasks("default", TaskState::Archived).page(2).await?;
//! println!("{} tasks on the second page", page.len());
//! let report = inspector.run_all("default", TaskState::Archived).await?;
//! println!("{} run again", report.changed);
//! inspector.delete_queue("old", Force::Yes).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Queues and ids are given as text or as [`QueueName`] and [`TaskId`]. Names that this crate does not allow for new queues, with
//! braces for example, are accepted too, because other programs may have made them.

mod arguments;
mod bulk;
mod edit;
mod error;
mod list;
mod locks;
mod progress;
mod queues;
mod removal;
mod statistics;
mod tasks;

use std::sync::Arc;

pub use self::{
    arguments::ArgumentReader,
    bulk::{ArchiveRoom, Bulk, RunningBulk},
    error::{InspectError, TaskChange},
    list::{ListGroups, ListTasks},
    progress::{BulkProgress, BulkReport},
    removal::{Force, QueueRemoval, RemovedQueue},
    statistics::{CountOf, QueueTotals, RunningTask, Statistics, UnreadableQueue},
};
#[doc(hidden)]
pub use self::{queues::QueueReading, statistics::time};
use crate::{
    broker::{Broker, BrokerError, DayStats, Examination, Node, QueueSlot, QueueStats, ServerState},
    client::Client,
    job::ShapeCache,
    task::{QueueName, TaskId, TaskInfo},
};

/// Reads and repairs the queues and tasks on a broker. An inspector is cheap to clone; [`Client::inspector`] makes one.
///
/// ```
/// # use asynq_runtime::prelude::*;
/// # async fn look(client: &Client) -> Result<(), BoxError> {
/// let inspector = client.inspector();
/// for task in inspector.tasks("default", TaskState::Archived).await? {
///     println!("{} {}: {:?}", task.id, task.r#type, task.last_error);
///     inspector.run(task.queue, task.id).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Inspector {
    broker: Arc<dyn Broker>,
    payload_limit: usize,
    /// Shapes that were looked up before.
    shapes: Arc<ShapeCache>,
    /// The task whose payload is the only one that an edit replaces.
    seen: Option<Arc<TaskInfo>>,
}

impl Client {
    /// Returns an inspector, which reads and repairs queues and tasks.
    pub fn inspector(&self) -> Inspector {
        Inspector::new(Arc::clone(self.broker())).payload_limit(self.payload_limit)
    }
}

impl Inspector {
    /// Makes an inspector of a connected broker.
    pub fn new(broker: Arc<dyn Broker>) -> Self {
        Self { broker, payload_limit: Client::DEFAULT_PAYLOAD_LIMIT, shapes: Arc::default(), seen: None }
    }

    /// Sets the largest payload that an edit may write, in bytes. [`Client::inspector`] passes the client's own limit. Default:
    /// [`Client::DEFAULT_PAYLOAD_LIMIT`]; larger values than [`Client::MAX_PAYLOAD_LIMIT`] are cut to it.
    #[must_use]
    pub fn payload_limit(mut self, bytes: usize) -> Self {
        self.payload_limit = bytes.min(Client::MAX_PAYLOAD_LIMIT);
        self
    }

    /// Lets an edit replace the payload of `seen` only: it fails with [`InspectError::Contended`] where another program has written
    /// another one since.
    #[doc(hidden)]
    #[must_use]
    pub fn edits_only(mut self, seen: &TaskInfo) -> Self {
        self.seen = Some(Arc::new(seen.clone()));
        self
    }

    /// Checks that a queue exists, which means that something was enqueued to it. Its numbers are not read.
    ///
    /// # Errors
    ///
    /// [`InspectError::QueueNotFound`]; or the broker failed.
    pub async fn exists(&self, queue: impl AsRef<str>) -> Result<(), InspectError> {
        self.known(&queue_name(queue)?).await
    }

    /// Returns the numbers of one queue.
    ///
    /// # Errors
    ///
    /// [`InspectError::QueueNotFound`], [`InspectError::UnreadableQueue`]; or the broker failed.
    pub async fn queue(&self, queue: impl AsRef<str>) -> Result<QueueStats, InspectError> {
        let queue = queue_name(queue)?;
        self.known(&queue).await?;
        let stats = self.broker.queue_stats(&queue).await;
        stats.map_err(|source| InspectError::UnreadableQueue { queue, source })
    }

    /// Returns the counters of the last `days` days (UTC), today first; at most 90, because older counters expire.
    ///
    /// # Errors
    ///
    /// `days` is 0, the queue does not exist, or the broker failed.
    pub async fn history(&self, queue: impl AsRef<str>, days: usize) -> Result<Vec<DayStats>, InspectError> {
        let queue = queue_name(queue)?;
        if days == 0 {
            return Err(InspectError::Request { what: "days", reason: "it must be at least 1".into() });
        }
        self.known(&queue).await?;
        Ok(self.broker.history(&queue, days).await?)
    }

    /// Returns about how many bytes the queue takes, estimated from up to 20 tasks of each state.
    ///
    /// # Errors
    ///
    /// The queue does not exist, or the broker failed.
    pub async fn memory_usage(&self, queue: impl AsRef<str>) -> Result<u64, InspectError> {
        let queue = queue_name(queue)?;
        self.known(&queue).await?;
        Ok(self.broker.memory_usage(&queue).await?)
    }

    /// Stops workers from taking tasks of the queue; returns whether the queue was running before. Active tasks go on. The queue
    /// need not exist yet, as in asynq.
    ///
    /// # Errors
    ///
    /// The name is blank, or the broker failed.
    pub async fn pause(&self, queue: impl AsRef<str>) -> Result<bool, InspectError> {
        Ok(self.broker.pause(&queue_name(queue)?).await?)
    }

    /// Lets workers take tasks of the queue again; returns whether the queue was paused before. On Redis a queue that has tasks and is
    /// missing from the list of queues, as after a deletion by Go's tools, is listed again.
    ///
    /// # Errors
    ///
    /// The name is blank, or the broker failed.
    pub async fn resume(&self, queue: impl AsRef<str>) -> Result<bool, InspectError> {
        Ok(self.broker.resume(&queue_name(queue)?).await?)
    }

    /// Returns the servers that live, those of this crate and Go's, with their running tasks.
    ///
    /// # Errors
    ///
    /// The broker failed, or the part of it that keeps the list of servers: the error says so, because the rest of a Redis Cluster may
    /// work.
    pub async fn servers(&self) -> Result<Vec<ServerState>, InspectError> {
        self.broker.servers().await.map_err(|error| {
            let message = format!("the list of servers cannot be read: {error}");
            BrokerError::with_source(error.kind(), message, error).into()
        })
    }

    /// Returns the broker's facts about itself, one entry per server or file that keeps tasks: version, memory, persistence,
    /// clock.
    ///
    /// # Errors
    ///
    /// The broker failed.
    pub async fn nodes(&self) -> Result<Vec<Node>, InspectError> {
        Ok(self.broker.nodes().await?)
    }

    /// Returns the slots of these queues in a Redis Cluster and the nodes that serve them; empty without a cluster.
    ///
    /// # Errors
    ///
    /// The broker failed, or the login may not run `CLUSTER SLOTS`.
    pub async fn slots(&self, queues: &[QueueName]) -> Result<Vec<QueueSlot>, InspectError> {
        Ok(self.broker.slots(queues).await?)
    }

    /// Looks for inconsistencies in a queue, such as active tasks without a lease, at up to `limit` tasks in each state. Nothing
    /// is changed; workers may go on.
    ///
    /// # Errors
    ///
    /// The queue does not exist, or the broker failed.
    pub async fn examine(&self, queue: impl AsRef<str>, limit: usize) -> Result<Examination, InspectError> {
        let queue = queue_name(queue)?;
        self.known(&queue).await?;
        Ok(self.broker.examine(&queue, limit).await?)
    }

    /// Releases the tasks of sets whose deadline has passed to their groups; returns whether there was such a set. The janitor of a
    /// server does so too, but a queue that no server serves any more has none.
    ///
    /// # Errors
    ///
    /// The broker did not answer. A refusal, such as that of a key of a foreign type, prevents no other change.
    async fn reclaim_sets(&self, queue: &QueueName) -> Result<bool, BrokerError> {
        let mut has_any = false;
        loop {
            match self.broker.reclaim_sets(queue).await {
                Ok(0) => return Ok(has_any),
                Ok(_) => has_any = true,
                Err(error) if error.is_unavailable() => return Err(error),
                Err(error) => {
                    log!(debug, %queue, "the sets of the queue cannot be released: {error}");
                    return Ok(has_any);
                }
            }
        }
    }

    /// Fails if the queue does not exist.
    async fn known(&self, queue: &QueueName) -> Result<(), InspectError> {
        if self.broker.knows(queue).await? {
            return Ok(());
        }
        Err(InspectError::QueueNotFound { queue: queue.clone() })
    }

    /// The error for a task that was not found: the queue or the task does not exist.
    async fn missing(&self, queue: &QueueName, id: &TaskId) -> InspectError {
        match self.known(queue).await {
            Ok(()) => InspectError::TaskNotFound { queue: queue.clone(), id: id.clone() },
            Err(error) => error,
        }
    }
}

/// The name of any queue that a program may have made; a blank name is refused.
fn queue_name(name: impl AsRef<str>) -> Result<QueueName, InspectError> {
    not_blank("queue", name.as_ref()).map(QueueName::from_wire)
}

/// The id of any task that a program may have made; a blank id is refused.
fn task_id(id: impl AsRef<str>) -> Result<TaskId, InspectError> {
    not_blank("id", id.as_ref()).map(TaskId::from_wire)
}

fn not_blank<'n>(what: &'static str, name: &'n str) -> Result<&'n str, InspectError> {
    if name.trim().is_empty() { Err(InspectError::blank(what)) } else { Ok(name) }
}
