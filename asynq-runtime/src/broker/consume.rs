//! Contract: take tasks out of queues to run them (docs/design/fence.md#taking-a-task).

use std::{
    collections::HashSet,
    fmt,
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use tokio_util::sync::CancellationToken;

use super::{BrokerError, Member};
use crate::task::{Extra, QueueName, TaskId, TaskMessage, UndecodableMessage};

/// Takes pending tasks, oldest first.
#[async_trait::async_trait]
pub trait Consume {
    /// Takes up to `n` tasks of each wanted queue, in the given order of queues, in one round trip. A paused queue gives none.
    /// Each task becomes active, with a lease and a new run token, in the same atomic step. Where messages are large, a call gives
    /// fewer tasks, of some 4 MiB, or 1 MiB of each queue on Redis, so that it ends in time; one task may be larger.
    ///
    /// Ids without a task are set aside and never returned. A message that cannot be read, or whose id or queue differs from the
    /// place where it was stored, is returned as undecodable, so that the caller can archive it with the reason.
    ///
    /// After a call whose answer was lost, the next call of the same member begins with the requeue of the tasks that the lost
    /// call took, as by [`release_unanswered`](Self::release_unanswered). A queue whose tasks it could not requeue gives none.
    ///
    /// # Errors
    ///
    /// A queue could not be asked, and the others gave no task. The tasks that came are returned without the error.
    async fn dequeue(&self, member: &Member, wanted: &[Wanted]) -> Result<Vec<Run>, BrokerError> {
        self.dequeue_sparing(member, wanted, Quarantined::All).await
    }

    /// Takes tasks as [`dequeue`](Self::dequeue) does, but no more quarantined ones than `quarantined` allows. The other
    /// quarantined tasks stay pending, never active for a moment, and tasks behind them are taken instead. If they are so many
    /// that one call does not reach past them, they may move to the end of the queue. The reason for the limit: a death of a
    /// server is charged to every task that it held, so a server that runs a quarantined task should hold no other one.
    ///
    /// # Errors
    ///
    /// The errors of [`dequeue`](Self::dequeue).
    async fn dequeue_sparing(
        &self,
        member: &Member,
        wanted: &[Wanted],
        quarantined: Quarantined,
    ) -> Result<Vec<Run>, BrokerError>;

    /// Returns whether dequeues are fastest on the runtime that runs the jobs: the I/O then happens in the calling task, and no
    /// other thread has to be woken. A job that blocks that runtime delays such a call; a caller on that runtime must look after
    /// its calls with [`release_unanswered`](Self::release_unanswered). Default: `false`.
    fn dequeues_beside_jobs(&self) -> bool {
        false
    }

    /// Returns whether queues may lie on different servers, of which one may be away while others answer. Default: `false`.
    fn has_parts(&self) -> bool {
        false
    }

    /// Requeues the tasks that earlier calls of this member took and did not return, at the heads of their queues and as if they
    /// had not been taken. No such task has begun, so this does not count as a crash.
    ///
    /// The calls in question were dropped or got no answer. If [`dequeues_beside_jobs`](Self::dequeues_beside_jobs) is true, they
    /// are also the calls that began more than `older` ago and are held up, with no byte of the answer read for that long; where a
    /// broker does not see the bytes, six times as long. A held-up call does not return the tasks that were requeued here. If an
    /// answer takes longer than `older` but is still arriving, the leases of its tasks are extended.
    ///
    /// Returns the requeued tasks; of each queue the next to be taken comes first.
    ///
    /// # Errors
    ///
    /// The broker cannot be asked; the member's next dequeue requeues the tasks.
    async fn release_unanswered(
        &self,
        member: &Member,
        older: Duration,
    ) -> Result<Vec<(QueueName, TaskId)>, BrokerError>;

    /// Returns whether an earlier call of this member on one of the `wanted` queues may have taken tasks that it did not return. Such
    /// tasks are active, so no wait for pending tasks ends for them. Default: `false`.
    fn has_unanswered(&self, _member: &Member, _wanted: &[Wanted]) -> bool {
        false
    }

    /// Returns those of `queues` that are not paused and have a pending task now, in one round trip, for a server with more
    /// queues than one dequeue should ask. With [`Quarantined::None`] a queue with only quarantined tasks is left out as soon as
    /// the broker knows its content, at the latest after a dequeue that found it.
    ///
    /// # Errors
    ///
    /// The broker cannot be asked.
    async fn ready(&self, queues: &[QueueName], quarantined: Quarantined) -> Result<Vec<QueueName>, BrokerError>;

    /// Waits until one of `queues` may have a task to take, and returns those queues. It returns at once if a queue that is not
    /// paused has pending tasks, otherwise after the next write of any program. With many servers, some of them start a few
    /// milliseconds later. Returns no queue after `limit`, and may do so earlier. It does not return for queues that
    /// [`ready`](Self::ready) leaves out. Dropping the future is safe.
    ///
    /// # Errors
    ///
    /// The broker cannot be asked; callers back off and try again.
    async fn wait_for_work(
        &self,
        queues: &[QueueName],
        quarantined: Quarantined,
        limit: Duration,
    ) -> Result<Vec<QueueName>, BrokerError>;

    /// Waits for tasks in the `wanted` queues as [`wait_for_work`](Self::wait_for_work) does, and takes them as
    /// [`dequeue_sparing`](Self::dequeue_sparing) does. A broker may do both in the step that stores the task. Returns no task
    /// after `limit` or when `stop` is cancelled, and may do so earlier.
    ///
    /// If the future is dropped, the member's next call requeues the tasks that were taken. A caller that will not call again must
    /// cancel `stop` and await the answer.
    ///
    /// # Errors
    ///
    /// The errors of these two methods.
    async fn wait_and_dequeue(
        &self,
        member: &Member,
        wanted: &[Wanted],
        quarantined: Quarantined,
        limit: Duration,
        stop: &CancellationToken,
    ) -> Result<Vec<Run>, BrokerError> {
        if self.has_unanswered(member, wanted) {
            return self.dequeue_sparing(member, wanted, quarantined).await;
        }
        let queues: Vec<QueueName> = wanted.iter().map(|wanted| wanted.queue.clone()).collect();
        let open = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(Vec::new()),
            open = self.wait_for_work(&queues, quarantined, limit) => open?,
        };
        if open.is_empty() {
            return Ok(Vec::new());
        }
        self.dequeue_sparing(member, &Wanted::only(wanted, &open), quarantined).await
    }
}

/// The number of tasks to take from one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The queue.
    pub queue: QueueName,
    /// Most tasks to take from the queue.
    pub n: usize,
}

impl Wanted {
    /// The items of `wanted` whose queues are among `open`.
    pub(crate) fn only(wanted: &[Self], open: &[QueueName]) -> Vec<Self> {
        let open: HashSet<&QueueName> = open.iter().collect();
        wanted.iter().filter(|wanted| open.contains(&wanted.queue)).cloned().collect()
    }
}

/// How many quarantined tasks to take. A task is quarantined if its next crash would archive it, or its last has
/// ([`Extra::is_quarantined`](crate::task::Extra::is_quarantined)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quarantined {
    /// No limit.
    All,
    /// One, of any of the queues. A broker that asks several queues at once may pass over the quarantined tasks of all of them,
    /// and return one in the next call.
    One,
    /// None.
    None,
}

/// One attempt at one task, from its dequeue on.
#[derive(Debug, Clone)]
pub struct Run {
    /// Identifies the run; settle and extend are fenced on it.
    pub key: RunKey,
    /// The task, or the bytes that cannot be decoded as one.
    pub message: Result<TaskMessage, UndecodableMessage>,
    /// How often a worker died while it ran this task, since the last attempt that ended by itself.
    pub crashes: u32,
    /// Facts that asynq's message has no field for.
    pub extra: Extra,
    /// How long the task had been pending, by the broker's clock; `None` if the broker cannot tell.
    pub waited: Option<Duration>,
    /// An instant of this process's monotonic clock before which no other server can have taken the task from this run: when the
    /// dequeue was sent to Redis, or when SQLite's transaction took the task.
    pub asked: Instant,
    /// The time of `asked` by this program's knowledge of the broker's clock.
    pub asked_at: DateTime<Utc>,
    /// When the broker gave the task to this run, by its clock: never before an earlier run of the task, as long as that clock is not
    /// set back.
    pub taken_at: DateTime<Utc>,
}

impl Run {
    /// Returns roughly how many bytes the broker sent for the run.
    pub(crate) fn bytes(&self) -> usize {
        self.message.as_ref().map_or_else(|error| error.raw.len(), |message| message.payload.len())
    }
}

/// Identifies one run of one task. A key stays valid until the task is settled or another server takes it; the broker decides
/// which, never a clock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RunKey {
    /// Queue of the task.
    pub queue: QueueName,
    /// Id of the task.
    pub id: TaskId,
    /// Drawn by the dequeue; queue, id and token identify the run.
    pub token: RunToken,
    /// The number of the member that runs the task, the second half of the fence on SQLite; 0 elsewhere.
    pub server: i64,
    /// The row of the task on SQLite, 0 elsewhere.
    pub row: i64,
}

/// The token of a run: 19 decimal digits that read as a time in nanoseconds, the broker's when the call that takes the task is made.
/// The fence compares tokens for equality alone: the call may have waited long before it took the task, at [`Run::taken_at`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunToken(pub i64);

impl fmt::Display for RunToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:019}", self.0)
    }
}
