//! Contract: each tick of a periodic entry is enqueued once, and one scheduler leads (docs/design/schedules.md).
//!
//! [`tick`](Schedules::tick) alone makes sure that a tick fires once, however many schedulers send it. Leadership only saves
//! work.

use std::{fmt, time::Duration};

use chrono::{DateTime, Utc};

use super::{BrokerError, NewTask, Page, Placed, Refused, config};
use crate::task::{QueueName, SchedulerEnqueueEvent, SchedulerEntry, TaskId};

/// Keeps the state that schedulers share: entries, ticks, the lead and the lists.
#[async_trait::async_trait]
pub trait Schedules {
    /// Fires one tick of an entry: the marker, the entry's last tick and the enqueue in one atomic step, each decided by the
    /// broker's clock, in the order of docs/design/schedules.md#a-tick.
    ///
    /// A repeat after a lost answer returns `Duplicate` if the first send worked. A task whose id or unique lock is taken is
    /// refused, the tick counts as fired, and no task is replaced.
    ///
    /// A task that is replaced while it runs is asked to stop in the same step, and marked
    /// ([`Extra::replaced`](crate::task::Extra::replaced)): [`settle`](super::Settle::settle) deletes it instead of retrying,
    /// archiving or requeueing it.
    ///
    /// # Errors
    ///
    /// The broker failed; send the same tick again until it answers.
    async fn tick(&self, tick: &Tick) -> Result<Ticked, BrokerError>;

    /// Makes an entry known as this program plans it, and returns its stored state. Its queue becomes known with its first task.
    /// The last tick of a new entry is now, and so is that of an entry whose spec or zone changes, because a new spec read over an
    /// old gap would fire a storm of ticks. A plan of an older revision changes nothing, unless it
    /// [supersedes](EntryPlan::supersedes) exactly the stored revision.
    /// Whatever the revision, a last tick more than 5 s in the future becomes now: it was stored before the broker's clock went
    /// back.
    ///
    /// # Errors
    ///
    /// The broker failed; the call may be repeated, and then returns [`PlanChange::None`] for a change of its first send.
    async fn plan_entry(&self, plan: &EntryPlan) -> Result<Planned, BrokerError>;

    /// Returns the stored state of an entry; `None` if the entry is not known.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn entry(&self, queue: &QueueName, entry: &EntryId) -> Result<Option<EntryState>, BrokerError>;

    /// Pauses an entry or lets it go on; returns whether that changed anything. Ticks during a pause are not made up for: the
    /// last tick of an entry that goes on is now.
    ///
    /// # Errors
    ///
    /// The broker failed; the call may be repeated.
    async fn pause_entry(&self, queue: &QueueName, entry: &EntryId, paused: bool) -> Result<bool, BrokerError>;

    /// Deletes the stored state of an entry, its pause included, and its history. An entry that no program plans any more expires by itself.
    ///
    /// # Errors
    ///
    /// The broker failed; the call may be repeated.
    async fn forget_entry(&self, queue: &QueueName, entry: &EntryId) -> Result<(), BrokerError>;

    /// Takes the lead of the candidate's program if it is free, or keeps it. A leader sends the request every third of `ttl`, and
    /// may lead until `ttl` after the moment *before* the request, less a margin. The leaders of two programs are independent.
    ///
    /// # Errors
    ///
    /// The broker failed. Whether the lead was taken is unknown; it expires by itself.
    async fn lead(&self, candidate: &Candidate, ttl: Duration) -> Result<Lead, BrokerError>;

    /// Releases the lead if the candidate has it, so that another scheduler can take it at once.
    ///
    /// # Errors
    ///
    /// The broker failed; the lead expires by itself.
    async fn resign(&self, candidate: &Candidate) -> Result<(), BrokerError>;

    /// Waits until the lead of `program` may be free, at most for `limit`. It may return early. Dropping the future is safe.
    ///
    /// # Errors
    ///
    /// The broker cannot be asked; callers back off.
    async fn wait_for_lead(&self, program: &str, limit: Duration) -> Result<(), BrokerError>;

    /// Lists a scheduler's entries for asynq's tools, in the given order, for `ttl`, whole seconds.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn show_entries(&self, scheduler: &str, entries: &[SchedulerEntry], ttl: Duration)
    -> Result<(), BrokerError>;

    /// Removes a scheduler's entries from the list.
    ///
    /// # Errors
    ///
    /// The broker failed; the list expires by itself.
    async fn withdraw_entries(&self, scheduler: &str) -> Result<(), BrokerError>;

    /// Adds an event to the history of an entry, which keeps the newest 1,000 events; one that is there already is not added again. The
    /// history expires 90 days after its newest event.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn record_enqueue(&self, entry: &str, event: &SchedulerEnqueueEvent) -> Result<(), BrokerError>;

    /// Returns the entries of all schedulers that live, those of this crate and Go's.
    ///
    /// # Errors
    ///
    /// The broker failed, or a part of it that has such a list is away.
    async fn scheduler_entries(&self) -> Result<Vec<SchedulerEntry>, BrokerError>;

    /// Returns one page of the history of an entry, the newest event first.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn enqueue_history(&self, entry: &str, page: Page) -> Result<Vec<SchedulerEnqueueEvent>, BrokerError>;
}

/// The id of a periodic entry: a UUID made of the job and a key. Schedule, queue and options are not part of it, so that a deploy
/// which changes one of them changes the entry and does not make a second one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId(String);

impl EntryId {
    /// Returns the id of the entry of this job with this key; the only entry of a job needs no key (`""`).
    pub fn of(job: &str, key: &str) -> Self {
        Self::of_parts(job, b"key", key.as_bytes())
    }

    /// Returns the id of an entry without a key, made of its job and its encoded arguments, so that entries of one job for several
    /// customers need no keys. The arguments of a job in postcard are those behind the format byte and the fingerprint, with
    /// which its payload begins. Another codec or another shape of the arguments makes another id, so an entry with arguments that
    /// a person edits or a deploy changes needs a key.
    #[doc(hidden)]
    pub fn of_arguments(job: &str, arguments: &[u8]) -> Self {
        Self::of_parts(job, b"arguments", arguments)
    }

    fn of_parts(job: &str, kind: &[u8], value: &[u8]) -> Self {
        let parts: &[&[u8]] = if value.is_empty() { &[job.as_bytes()] } else { &[job.as_bytes(), kind, value] };
        // The lengths stand before the texts, so that two different lists of parts never make one name.
        let mut name = Vec::new();
        for part in parts {
            name.extend_from_slice(&(part.len() as u64).to_be_bytes());
            name.extend_from_slice(part);
        }
        Self(uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, &name).to_string())
    }

    /// Makes an id of a text that was read from a broker, without a check.
    pub fn from_wire(id: &str) -> Self {
        Self(id.to_owned())
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the id of the task of this entry's tick at `at`, the same for every scheduler.
    #[doc(hidden)]
    pub fn task_id(&self, at: DateTime<Utc>) -> TaskId {
        TaskId::from_wire(&format!("cron:{}:{}", self.0, at.timestamp()))
    }

    /// Returns the tick of this entry whose task has this id; `None` for any other task.
    #[doc(hidden)]
    pub fn tick_of(&self, task: &TaskId) -> Option<DateTime<Utc>> {
        let seconds = task.as_str().strip_prefix("cron:")?.strip_prefix(&self.0)?.strip_prefix(':')?;
        DateTime::from_timestamp(seconds.parse().ok()?, 0)
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
    /// The queue of the entry.
    pub queue: QueueName,
    /// The id of the entry.
    pub entry: EntryId,
    /// The schedule as text.
    pub spec: String,
    /// The time zone of the schedule.
    pub zone: String,
    /// The revision of the program that plans the entry, for example the Unix seconds of its release. The newest revision wins as
    /// long as a scheduler of it runs.
    pub revision: u64,
    /// A newer revision without a running scheduler, for example after a roll-back: this plan replaces the stored one if it has
    /// exactly that revision. Any other newer revision stays.
    pub supersedes: Option<u64>,
    /// How long the entry is stored without a tick.
    pub keep: Duration,
}

/// The result of [`plan_entry`](Schedules::plan_entry).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// The entry.
    pub state: EntryState,
    /// The change that the call made to the schedule.
    pub change: PlanChange,
}

/// The change that a plan made to the schedule of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanChange {
    /// None: the entry had this schedule already, or keeps that of a newer program.
    None,
    /// The entry was not known.
    New,
    /// The entry had another schedule.
    Replaced {
        /// The former schedule as text.
        spec: String,
        /// The former time zone.
        zone: String,
    },
}

/// The stored state of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryState {
    /// The schedule as the newest program plans it.
    pub spec: String,
    /// The time zone of the schedule.
    pub zone: String,
    /// The revision of the program that planned it.
    pub revision: u64,
    /// The last tick that fired, was skipped or was passed over.
    pub last: DateTime<Utc>,
    /// The task of the last tick that enqueued one.
    pub previous: Option<TaskId>,
    /// Whether the entry is paused.
    pub paused: bool,
    /// The broker's time of this answer.
    pub now: DateTime<Utc>,
}

/// One tick of an entry.
#[derive(Debug, Clone)]
pub struct Tick {
    /// The entry as it is planned.
    pub plan: EntryPlan,
    /// The time that the tick is for; a whole second.
    pub at: DateTime<Utc>,
    /// How long the marker of the tick is kept.
    pub marker: Duration,
    /// The last tick of the entry as the scheduler knows it; `None` if it knows none. A broker that stores an earlier one has
    /// lost writes that it had acknowledged, for example in a failover.
    pub known: Option<DateTime<Utc>>,
    /// The effect of a previous task that has not ended.
    pub overlap: Overlap,
    /// The task to enqueue. Its id is [`EntryId::task_id`] of the tick; with a jitter its time is later than the tick's.
    pub task: NewTask,
}

impl Tick {
    /// Refuses a tick whose task is for another queue than its entry.
    pub(crate) fn check(&self) -> Result<(), BrokerError> {
        let (EntryPlan { queue, entry, .. }, found) = (&self.plan, &self.task.queue);
        if found == queue {
            return Ok(());
        }
        Err(config(format!("the task of entry {entry} is for queue {found}: it must be {queue}")))
    }
}

/// The effect of a tick while the task of the previous one waits or runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Overlap {
    /// Enqueues the task beside the previous one. The default.
    #[default]
    Allow,
    /// Leaves this tick out. A previous task that is archived, completed, deleted or lost does not count. One whose worker died
    /// counts until it has ended, because it will run again.
    Skip,
    /// Enqueues the task and deletes the previous one if it waits or its worker died; one in a set stays, because its server makes a
    /// task of it now. A previous task that runs is asked to stop,
    /// and is deleted when its run ends, whatever retries it has left; a run that succeeds all the same is a success.
    Replace,
}

/// The result of a tick.
#[derive(Debug, Clone)]
pub enum Ticked {
    /// The task of the tick is stored.
    Enqueued(Placed),
    /// The tick is not due by the broker's clock for this time.
    Early(Duration),
    /// Another scheduler has fired this tick, or a later one.
    Duplicate,
    /// The entry is paused.
    Paused,
    /// A newer program has another spec for the entry.
    Stale,
    /// The broker stores an earlier last tick than the scheduler knows. Plan the entries again, so that the lost ticks are made
    /// up for.
    Behind,
    /// The tick was left out because this previous task still waits or runs.
    Skipped(TaskId),
    /// The task was refused: its id or its unique lock is taken. The tick counts as fired.
    Refused(Refused),
}

/// A scheduler that asks for the lead of its program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The name of the program, the same in all of its replicas and versions; each program has a leader of its own.
    pub program: String,
    /// The token of the scheduler, new at every start.
    pub token: String,
    /// The revision of the program: a newer one gets the lead from an older one.
    pub revision: u64,
}

/// The leader of the schedulers of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lead {
    /// The candidate leads.
    Ours {
        /// Whether a newer program asked for the lead in the meantime and waits for it: resign.
        wanted: bool,
    },
    /// Another scheduler leads, at most for this time unless it renews the lead.
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
        assert_eq!(id.tick_of(&id.task_id(at)), Some(at));
        for other in ["cron:1800000000", "cron:another:1800000000", "x"] {
            assert_eq!(id.tick_of(&TaskId::from_wire(other)), None, "{other}");
        }
    }
}
