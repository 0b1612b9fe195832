//! Contract: each tick of a periodic entry enqueued once, and the lead of the schedulers (docs/design/schedules.md).
//!
//! [`tick`](Schedules::tick) alone makes a tick fire once, however many schedulers send it. Leadership only saves work.

use std::{fmt, time::Duration};

use chrono::{DateTime, Utc};

use super::{BrokerError, NewTask, Page, Placed, Refused};
use crate::task::{QueueName, SchedulerEnqueueEvent, SchedulerEntry, TaskId};

/// Keeps what schedulers share.
#[async_trait::async_trait]
pub trait Schedules {
    /// Fires one tick of an entry: the marker, the entry's last tick and the enqueue in one atomic step, each decided by
    /// the broker's clock, in this order:
    ///
    /// 1. a tick that is not due yet → [`Ticked::Early`];
    /// 2. an entry that was planned from a newer program with another spec → [`Ticked::Stale`]; one whose last tick is
    ///    before the one that the scheduler knows ([`Tick::known`]) → [`Ticked::Behind`];
    /// 3. a last tick more than 5 s in the future: the broker's clock went back, and the last tick is 5 s ago, so that a
    ///    tick of this moment fires and one of the time before does not;
    /// 4. a tick at or before the last one, or with a marker → [`Ticked::Duplicate`], and the last tick moves on;
    /// 5. a paused entry → [`Ticked::Paused`], and the last tick moves on;
    /// 6. the overlap, by the previous task's real state → perhaps [`Ticked::Skipped`];
    /// 7. the enqueue.
    ///
    /// A repeat after a lost answer says `Duplicate` where the first send worked. A task whose id or unique lock is taken is
    /// refused and the tick counts as fired.
    ///
    /// A task that is replaced while it runs is asked to stop in the same step, and marked
    /// ([`Extra::replaced`](crate::task::Extra::replaced)): [`settle`](super::Settle::settle) deletes it where it would defer it,
    /// archive it or requeue it.
    ///
    /// # Errors
    ///
    /// The broker failed; send the same tick again until it answers.
    async fn tick(&self, tick: &Tick) -> Result<Ticked, BrokerError>;

    /// Makes an entry known as this program plans it and returns what is kept of it. A new entry's last tick is now, and
    /// so is that of one whose spec or zone changes: no storm from reading old gaps by a new spec. An older revision
    /// changes nothing, unless it [supersedes](EntryPlan::supersedes) exactly the revision that is kept. Whatever the
    /// revision, a last tick more than 5 s in the future becomes now: it was written before the broker's clock went back.
    ///
    /// # Errors
    ///
    /// The broker failed; the call may be repeated, and then says [`PlanChange::None`] of what it changed before.
    async fn plan_entry(&self, plan: &EntryPlan) -> Result<Planned, BrokerError>;

    /// What is kept of an entry, if it is known.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn entry(&self, queue: &QueueName, entry: &EntryId) -> Result<Option<EntryState>, BrokerError>;

    /// Pauses an entry or lets it go on; returns whether that changed anything. Ticks of a pause are
    /// not made up for: the last tick of an entry that goes on is now.
    ///
    /// # Errors
    ///
    /// The broker failed; the call may be repeated.
    async fn pause_entry(&self, queue: &QueueName, entry: &EntryId, paused: bool) -> Result<bool, BrokerError>;

    /// Forgets an entry at once, its history with it; one that just leaves a program is forgotten by itself.
    ///
    /// # Errors
    ///
    /// The broker failed; the call may be repeated.
    async fn forget_entry(&self, queue: &QueueName, entry: &EntryId) -> Result<(), BrokerError>;

    /// Takes the lead of its program if it is free, or keeps it. Send it every third of `ttl`; count on it until `ttl`
    /// after the moment *before* the request, less a margin. The leaders of two programs know nothing of each other.
    ///
    /// # Errors
    ///
    /// The broker failed; whether the lead was taken is unknown, and it ends by itself.
    async fn lead(&self, candidate: &Candidate, ttl: Duration) -> Result<Lead, BrokerError>;

    /// Gives the lead up if it is the candidate's, so that another takes it at once.
    ///
    /// # Errors
    ///
    /// The broker failed; it ends by itself.
    async fn resign(&self, candidate: &Candidate) -> Result<(), BrokerError>;

    /// Returns when the lead of `program` may be free, at the latest after `limit`. It may return early for nothing.
    /// Dropping the future is safe.
    ///
    /// # Errors
    ///
    /// The broker cannot be asked; callers back off.
    async fn wait_for_lead(&self, program: &str, limit: Duration) -> Result<(), BrokerError>;

    /// Shows a scheduler's entries to asynq's tools for `ttl`, whole seconds; in the order given.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn show_entries(&self, scheduler: &str, entries: &[SchedulerEntry], ttl: Duration)
    -> Result<(), BrokerError>;

    /// Takes a scheduler's entries off the list.
    ///
    /// # Errors
    ///
    /// The broker failed; they disappear by themselves.
    async fn withdraw_entries(&self, scheduler: &str) -> Result<(), BrokerError>;

    /// Adds to the history of an entry, which keeps the newest 1,000 for 90 days without news.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn record_enqueue(&self, entry: &str, event: &SchedulerEnqueueEvent) -> Result<(), BrokerError>;

    /// The entries of all schedulers that live, ours and Go's.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn scheduler_entries(&self) -> Result<Vec<SchedulerEntry>, BrokerError>;

    /// One page of the history of an entry, the newest first.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn enqueue_history(&self, entry: &str, page: Page) -> Result<Vec<SchedulerEnqueueEvent>, BrokerError>;
}

/// The first byte of arguments in postcard; four bytes that name their shape follow.
const POSTCARD: u8 = 0x01;

/// Names a periodic entry: a UUID made of what a person would call it. Schedule, queue and options are not part of it,
/// so that a deploy which changes one of them changes the entry and makes no second one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId(String);

impl EntryId {
    /// The id of the entry of this job that has this key; the only entry of a job needs none (`""`).
    pub fn of(job: &str, key: &str) -> Self {
        let key = (!key.is_empty()).then_some([b"key", key.as_bytes()]);
        Self::of_parts(std::iter::once(job.as_bytes()).chain(key.into_iter().flatten()))
    }

    /// The id of an entry without a key: its job and what the job is called with, so that entries of one job for
    /// several customers need no keys. The format and the shape of the arguments, with which a payload of postcard
    /// begins, are not part of it; where a person edits the arguments of an entry, it needs a key.
    pub fn of_arguments(job: &str, payload: &[u8]) -> Self {
        let arguments = match payload {
            [POSTCARD, _, _, _, _, arguments @ ..] => arguments,
            _ => payload,
        };
        let arguments = (!arguments.is_empty()).then_some([&b"arguments"[..], arguments]);
        Self::of_parts(std::iter::once(job.as_bytes()).chain(arguments.into_iter().flatten()))
    }

    fn of_parts<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Self {
        // Lengths before texts, so that no two lists of parts are one.
        let mut name = Vec::new();
        for part in parts {
            name.extend_from_slice(&(part.len() as u64).to_be_bytes());
            name.extend_from_slice(part);
        }
        Self(uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, &name).to_string())
    }

    /// An id that was read somewhere.
    pub fn from_wire(id: &str) -> Self {
        Self(id.to_owned())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id of the task of this entry's tick at `at`: the same from every scheduler.
    pub fn task_id(&self, at: DateTime<Utc>) -> TaskId {
        TaskId::from_wire(&format!("cron:{}:{}", self.0, at.timestamp()))
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// An entry as a program plans it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryPlan {
    /// Its queue.
    pub queue: QueueName,
    /// Its id.
    pub entry: EntryId,
    /// Its schedule as text.
    pub spec: String,
    /// Its zone.
    pub zone: String,
    /// The revision of the program that plans it: Unix seconds of its release, say. Newer ones win as long as somebody
    /// schedules by them.
    pub revision: u64,
    /// A newer revision that nobody schedules by any more, after a roll-back say: if this is the one that is kept, this
    /// plan replaces it all the same. A revision that came meanwhile stays.
    pub supersedes: Option<u64>,
    /// How long it is remembered without a tick.
    pub keep: Duration,
}

/// What is kept of an entry after [`plan_entry`](Schedules::plan_entry).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// The entry.
    pub state: EntryState,
    /// What the call changed of its schedule.
    pub change: PlanChange,
}

/// What a plan changed of the schedule of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanChange {
    /// Nothing: it had this schedule, or a newer program's schedule stays.
    None,
    /// The entry was not known.
    New,
    /// It had another schedule.
    Replaced {
        /// The former schedule as text.
        spec: String,
        /// Its zone.
        zone: String,
    },
}

/// What is kept of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryState {
    /// Its schedule as the newest program plans it.
    pub spec: String,
    /// Its zone.
    pub zone: String,
    /// That program's revision.
    pub revision: u64,
    /// Its last tick that fired, was skipped or was passed over.
    pub last: DateTime<Utc>,
    /// The task of its last tick.
    pub previous: Option<TaskId>,
    /// Whether it is paused.
    pub paused: bool,
    /// The broker's time of this answer.
    pub now: DateTime<Utc>,
}

/// One tick of an entry.
#[derive(Debug, Clone)]
pub struct Tick {
    /// The entry as it is planned.
    pub plan: EntryPlan,
    /// The time that it is for; a whole second.
    pub at: DateTime<Utc>,
    /// How long its marker is kept.
    pub marker: Duration,
    /// The last tick of the entry as the scheduler knows it; `None` if it knows none. A broker that stores an earlier one
    /// has lost what it had acknowledged, in a failover say.
    pub known: Option<DateTime<Utc>>,
    /// What to do while the previous task is still there.
    pub overlap: Overlap,
    /// The task; its id is [`EntryId::task_id`] of the tick. With a jitter its time is later than the tick's.
    pub task: NewTask,
}

/// What a tick does while the task of the previous one waits or runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Overlap {
    /// Enqueues beside it. The default.
    #[default]
    Allow,
    /// Leaves this tick out. An archived, completed or lost task is not there, and neither is one whose worker died.
    Skip,
    /// Deletes it where it waits or where its worker died, and enqueues. Where it runs it is asked to stop, and deleted when
    /// its run ends, whatever retries it has left; a run that succeeds in spite of that is a success.
    Replace,
}

/// What became of a tick.
#[derive(Debug, Clone)]
pub enum Ticked {
    /// Its task is stored.
    Enqueued(Placed),
    /// It is not due by the broker's clock, but after this time.
    Early(Duration),
    /// Another scheduler has fired it, or a later one.
    Duplicate,
    /// The entry is paused.
    Paused,
    /// A newer program has another spec for the entry.
    Stale,
    /// The broker stores an earlier last tick than the scheduler knows: plan the entries again, so that what was lost with
    /// it is made up for.
    Behind,
    /// This task of the entry still waits or runs.
    Skipped(TaskId),
    /// The task was refused: its id or its unique lock is taken. The tick counts as fired.
    Refused(Refused),
}

/// A scheduler that would lead those of its program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The name of its program, the same in all of its replicas and versions; each program has a leader of its own.
    pub program: String,
    /// Names it, new at every start.
    pub token: String,
    /// The revision of its program: a newer one gets the lead from an older one.
    pub revision: u64,
}

/// The leader of the schedulers of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lead {
    /// The candidate. A newer program `wanted` the lead in the meantime: resign, it is waiting.
    Ours {
        /// Whether one did.
        wanted: bool,
    },
    /// Another, at most for this time unless it keeps it.
    Another(Duration),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_one_id_for_ever() {
        let id = EntryId::of("report", "");
        // A change would fire the ticks of a deploy twice.
        assert_eq!(id.as_str(), "b3ba0655-4fa0-5864-93a9-8f0fa75e9401");
        assert_eq!(id, EntryId::of_arguments("report", b""));
        let others = [
            EntryId::of("reports", ""),
            EntryId::of("report", "x"),
            EntryId::of_arguments("report", b"x"),
            EntryId::of("report", "arguments"),
        ];
        assert!(others.iter().all(|other| *other != id));
        assert_eq!(others.iter().collect::<std::collections::HashSet<_>>().len(), others.len());
        let at = DateTime::from_timestamp(1_800_000_000, 0).unwrap_or_default();
        assert_eq!(id.task_id(at).as_str(), format!("cron:{id}:1800000000"));
    }

    #[test]
    fn the_shape_of_the_arguments_is_no_part_of_an_id() {
        let shaped = |shape: u8, arguments: &[u8]| [&[POSTCARD, shape, 2, 3, 4], arguments].concat();
        let of = |payload: &[u8]| EntryId::of_arguments("bill", payload);
        assert_eq!(of(&shaped(1, b"")), EntryId::of("bill", ""));
        assert_eq!(of(&shaped(1, b"7")), of(&shaped(9, b"7")));
        assert_ne!(of(&shaped(1, b"7")), of(&shaped(1, b"8")));
        assert_ne!(of(b"{\"a\":1}"), of(b"{\"a\":2}"));
    }
}
