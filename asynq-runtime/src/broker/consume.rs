//! Contract: take tasks out of queues to run them (docs/design/fence.md#taking-a-task).

use std::{
    collections::HashSet,
    fmt,
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use super::{BrokerError, Member};
use crate::task::{Extra, QueueName, TaskId, TaskMessage, UndecodableMessage};

/// Takes pending tasks, oldest first.
#[async_trait::async_trait]
pub trait Consume {
    /// Takes up to `n` tasks of each wanted queue, in the given order, all in one round trip; paused queues give none.
    /// Each becomes active with a lease and a fresh run token in the same atomic step.
    ///
    /// Ids without a task are set aside, never returned. A message that cannot be read, or whose id or queue is
    /// another than where it lay, comes back as undecodable, so that the caller can archive it with the reason.
    ///
    /// After a call whose answer was lost, the next call of the same member gets those tasks first, and others of their queue
    /// only as far as they are fewer than `n`.
    ///
    /// # Errors
    ///
    /// No queue could be asked. If some could, their tasks are returned and the error comes with the next call.
    async fn dequeue(&self, member: &Member, wanted: &[Wanted]) -> Result<Vec<Run>, BrokerError> {
        self.dequeue_sparing(member, wanted, Quarantined::All).await
    }

    /// The same, but takes no more quarantined tasks than `quarantined` says: the others stay pending, never active for a
    /// moment, and what is behind them is taken instead; where they are so many that one call does not reach what is behind
    /// them, they may go to the end of the queue. A server that runs one therefore holds no other when it dies of
    /// it, and a death is charged to everything that the dead server held.
    ///
    /// # Errors
    ///
    /// As [`dequeue`](Self::dequeue).
    async fn dequeue_sparing(
        &self,
        member: &Member,
        wanted: &[Wanted],
        quarantined: Quarantined,
    ) -> Result<Vec<Run>, BrokerError>;

    /// Whether dequeues are quickest on the runtime where their tasks will run: the caller's own task then does what
    /// another thread would have to be woken for. A job that blocks there holds such a call up; a caller on such a
    /// runtime looks after its calls with [`release_unanswered`](Self::release_unanswered). Default: no.
    fn dequeues_beside_jobs(&self) -> bool {
        false
    }

    /// Requeues what earlier calls of this member took and did not return at the heads of its queues, as if it had not
    /// been taken: none of it began, so this is not a crash. These are calls that were dropped or got no answer; and,
    /// where [`dequeues_beside_jobs`](Self::dequeues_beside_jobs) says so, those that were begun longer than `older`
    /// ago and are held up: nothing of their answer has come for so long. What is requeued here is not returned there
    /// as well. Where an answer takes longer than `older` and is still coming, the leases of its tasks are extended.
    /// Returns what was requeued; of each queue the next to be taken is the first.
    ///
    /// # Errors
    ///
    /// The broker cannot be asked: the member's next dequeue gets the tasks.
    async fn release_unanswered(
        &self,
        member: &Member,
        older: Duration,
    ) -> Result<Vec<(QueueName, TaskId)>, BrokerError>;

    /// Returns those of `queues` that have something to take at this moment and are not paused, in one round trip: for a server
    /// of more queues than one dequeue should ask. With [`Quarantined::None`] a queue that has only quarantined tasks is left out
    /// as soon as the broker knows so, at the latest after a dequeue that found it so.
    ///
    /// # Errors
    ///
    /// The broker cannot be asked.
    async fn ready(&self, queues: &[QueueName], quarantined: Quarantined) -> Result<Vec<QueueName>, BrokerError>;

    /// Returns those of `queues` that may have something to take, as soon as there are any: at once if something waits there and
    /// is not paused, otherwise after the next write by anyone, which a server among many may take up a few milliseconds later
    /// than it could. Returns none after `limit`, or early for nothing. It does not return for the queues that
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

    /// Waits as [`wait_for_work`](Self::wait_for_work) does for something in the `wanted` queues and takes it as
    /// [`dequeue_sparing`](Self::dequeue_sparing) does; where a broker can, in the very step that stores it. Returns
    /// nothing after `limit`, when `stop` is cancelled, or for no reason.
    ///
    /// What was taken when the future was dropped comes with the member's next call; a caller that
    /// will make none must cancel `stop` and wait for the answer.
    ///
    /// # Errors
    ///
    /// As those two.
    async fn wait_and_dequeue(
        &self,
        member: &Member,
        wanted: &[Wanted],
        quarantined: Quarantined,
        limit: Duration,
        stop: &CancellationToken,
    ) -> Result<Vec<Run>, BrokerError> {
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

/// How many tasks of which queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The queue.
    pub queue: QueueName,
    /// Most tasks to take from it.
    pub n: usize,
}

impl Wanted {
    /// Those of `wanted` whose queues are among `open`.
    pub(crate) fn only(wanted: &[Self], open: &[QueueName]) -> Vec<Self> {
        let open: HashSet<&QueueName> = open.iter().collect();
        wanted.iter().filter(|wanted| open.contains(&wanted.queue)).cloned().collect()
    }
}

/// How many quarantined tasks to take: those that the next crash would archive
/// ([`Extra::is_quarantined`](crate::task::Extra::is_quarantined)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quarantined {
    /// As many as come.
    All,
    /// One, of whichever queue. Where a broker asks several queues at once it may pass those of all and give one in the next
    /// call.
    One,
    /// None.
    None,
}

/// One attempt at one task, from its dequeue on.
#[derive(Debug, Clone)]
pub struct Run {
    /// Which run of which task: what settle and extend are fenced on.
    pub key: RunKey,
    /// The task, or the bytes that are none.
    pub message: Result<TaskMessage, UndecodableMessage>,
    /// How often a worker died while it ran this task, since an attempt last ended by itself.
    pub crashes: u32,
    /// What the message cannot carry.
    pub extra: Extra,
    /// How long it had been pending, by the broker's clock; `None` where the broker cannot tell.
    pub waited: Option<Duration>,
    /// A moment of this process's own clock, which no step of a wall clock touches, before which nobody could take the task from
    /// this run: when Redis was asked for it, or the transaction of SQLite that takes it.
    pub asked: Instant,
}

/// Names one run of one task. It stays valid until the task is settled or someone else takes it; the broker decides
/// which, never a clock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RunKey {
    /// Queue of the task.
    pub queue: QueueName,
    /// Id of the task.
    pub id: TaskId,
    /// Drawn by the dequeue; with queue and id it names the run.
    pub token: RunToken,
    /// Number of the member that runs it; SQLite's other half of the fence, 0 elsewhere.
    pub server: i64,
    /// SQLite's row, 0 elsewhere.
    pub row: i64,
}

/// A run's token: 19 decimal digits that read as a time in nanoseconds. It is drawn when
/// the call that takes the task is made: brokers compare it for equality alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunToken(pub i64);

impl fmt::Display for RunToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:019}", self.0)
    }
}
