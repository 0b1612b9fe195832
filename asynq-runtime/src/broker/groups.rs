//! Contract: aggregate the tasks of a group into new ones (docs/design/failures.md#a-set-is-aggregated-twice).

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{BrokerError, CALL_BYTES, NewTask, Refused, config};
use crate::task::{Extra, GroupName, QueueName, TaskId, TaskMessage, UndecodableMessage};

/// Takes the tasks of a group out as a *set*, and ends the set together with storing the tasks that were made of it.
#[async_trait::async_trait]
pub trait Groups {
    /// Returns a page of the groups of a queue that have waiting tasks, with their numbers: at most `limit`, from the beginning
    /// or from the end of the page before (`after`). The cost of a page depends on `limit` alone, so a page may have fewer
    /// groups, even none, and still be followed by another.
    ///
    /// SQLite returns groups by name, and ends a page whose groups have 1,000,000 tasks together. Redis stores their names in no order, and returns some hundred at a time by name. There the
    /// second of two pages may repeat groups of the first, or leave out a few, if very many groups come or go in between.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn groups(
        &self,
        queue: &QueueName,
        after: Option<&GroupStep>,
        limit: usize,
    ) -> Result<GroupPage, BrokerError>;

    /// Returns one group as it is now; `None` if no task waits in it.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn group(&self, queue: &QueueName, group: &GroupName) -> Result<Option<GroupStats>, BrokerError>;

    /// Returns those of `queues` that have groups, or had some a moment ago, by one question about all of them, so that queues without
    /// groups cost an idle server nothing. Default: all, which is for fakes of the tests.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn worth_aggregating(&self, queues: &[QueueName]) -> Result<Vec<QueueName>, BrokerError> {
        Ok(queues.to_vec())
    }

    /// Takes one step of a walk over the groups of a queue, of some hundred groups: returns the groups that are ripe by the
    /// rules, of which [`claim_set`](Self::claim_set) takes sets, and the position from which the walk goes on. The walk sees
    /// every group that exists from the first step to the last, on Redis now and then twice. A group that has no tasks, or only
    /// ids without a task, may be named, too: `claim_set` forgets it.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn ripe_groups(
        &self,
        queue: &QueueName,
        rules: &GroupRules,
        from: Option<&GroupStep>,
    ) -> Result<RipeGroups, BrokerError>;

    /// Takes one set out of the group if it is ripe by the rules: the tasks that have waited longest, at most [`TaskSet::MOST`]
    /// and [`GroupRules::max_size`], and fewer if their messages are very large. Returns `None` if the group is not ripe. The
    /// caller holds the set until its deadline, 2 minutes from now, and beyond until [`reclaim_sets`](Self::reclaim_sets) returns
    /// it. The state of its tasks stays aggregating. Ids without a task are dropped from the group.
    ///
    /// A repeat after a lost answer may take a second set; the first one is released at its deadline.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn claim_set(
        &self,
        queue: &QueueName,
        group: &GroupName,
        rules: &GroupRules,
    ) -> Result<Option<TaskSet>, BrokerError>;

    /// Ends a set: stores the tasks that were made of it, frees the unique locks of its tasks and deletes them, all in one atomic
    /// step. Every task of the set must be in the outcome, as a part of a new task or by itself. A new task may take the lock of a
    /// part, and not that of a task that runs by itself.
    ///
    /// A repeat after a lost answer ([`SetOutcome::resend`]) recognises its first send by a receipt, which is kept for 10
    /// minutes. The ids of the new tasks are derived from the set's, so no task is stored twice after that either.
    ///
    /// # Errors
    ///
    /// [`SetError::Lost`]: the tasks of the set are in their group again, or it was ended otherwise; nothing was changed.
    /// [`SetError::Refused`]: a new task cannot be stored, or is for another queue; nothing was changed and the caller still holds the set.
    async fn finish_set(&self, set: &TaskSet, outcome: &SetOutcome) -> Result<(), SetError>;

    /// Releases the tasks of a set to their group, with the times when they joined it. A deleted task stays deleted.
    ///
    /// # Errors
    ///
    /// The broker failed; the tasks are released at the deadline.
    async fn release_set(&self, set: &TaskSet) -> Result<(), BrokerError>;

    /// Releases the tasks of sets whose deadline has passed to their groups, and makes those groups known again; at most 100
    /// sets. Counts that at the first task of each set, which is in its next set as well ([`TaskSet::crashes`]); sets of asynq are not
    /// counted. Returns how many sets.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn reclaim_sets(&self, queue: &QueueName) -> Result<usize, BrokerError>;
}

/// The rules by which the tasks of a group become a set; one met rule is enough. Times are whole seconds on Redis, as asynq keeps
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupRules {
    /// A set is due when no task has joined for this long; at least 1 s. Default: 1 minute, as in asynq. It is due, too, when a task
    /// joined more than 5 s later than now, on Redis 10 minutes: the clock was set back since.
    pub grace: Duration,
    /// A set is due when the first task has waited for this long. Default: `None`, never.
    pub max_delay: Option<Duration>,
    /// A set is due when this many tasks wait; no set is larger. Default: `None`, no such number.
    pub max_size: Option<usize>,
}

impl Default for GroupRules {
    fn default() -> Self {
        Self { grace: Duration::from_secs(60), max_delay: None, max_size: None }
    }
}

impl GroupRules {
    /// How many tasks make a group ripe by themselves: at most as many as a set can hold, which is also the limit of any set.
    pub(crate) fn enough(&self) -> Option<usize> {
        self.max_size.map(|size| size.clamp(1, TaskSet::MOST))
    }

    /// Returns the shortest time in which a group becomes ripe by time alone.
    pub(crate) fn ripens(&self) -> Duration {
        self.max_delay.map_or(self.grace, |delay| delay.min(self.grace))
    }
}

/// A group at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupStats {
    /// The name of the group.
    pub group: GroupName,
    /// How many tasks wait in the group. SQLite counts to 1,000,000 and no further, so that is the size of a larger group.
    pub size: u64,
    /// When the first of its tasks joined the group.
    pub oldest: Option<DateTime<Utc>>,
}

impl GroupStats {
    /// Makes the numbers of one group.
    pub fn new(group: GroupName, size: u64, oldest: Option<DateTime<Utc>>) -> Self {
        Self { group, size, oldest }
    }
}

/// A page of groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupPage {
    /// The groups.
    pub groups: Vec<GroupStats>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<GroupStep>,
}

/// The ripe groups of one step of a walk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RipeGroups {
    /// Names of groups of which [`claim_set`](Groups::claim_set) can take sets now.
    pub groups: Vec<GroupName>,
    /// Where the walk goes on; `None` at its end.
    pub next: Option<GroupStep>,
}

/// A position in a walk over groups: a text of the broker that gave it, for the same kind of walk. It can be stored; with a text
/// that no broker gave, the walk goes on anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStep(String);

impl GroupStep {
    /// Restores a step from the text that [`as_str`](Self::as_str) returned.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text to store.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Tasks taken out of a group together.
#[derive(Debug, Clone)]
pub struct TaskSet {
    /// The queue of the tasks.
    pub queue: QueueName,
    /// The group of the tasks.
    pub group: GroupName,
    /// The id of the set, a UUID.
    pub id: String,
    /// The number of the set on SQLite, 0 elsewhere.
    pub number: i64,
    /// The end of the time in which the caller holds the set.
    pub deadline: DateTime<Utc>,
    /// The tasks, in the order in which they joined. Redis keeps whole seconds, as asynq does: within one second it returns them by the
    /// bytes of their ids. Ids that a client draws are in the order of their enqueues.
    pub members: Vec<SetMember>,
    /// Whether the messages of the tasks fill the set, so that more tasks may wait in the group.
    pub is_full: bool,
    /// How often a set that began with one of these tasks came back at its deadline, mostly because the server that aggregated it died;
    /// the most of all its tasks.
    pub crashes: u32,
}

impl TaskSet {
    /// Bytes of messages that fill a set.
    pub const BYTES: usize = CALL_BYTES;
    /// Most tasks of a set: a larger group is taken in slices, so that no call holds the broker up.
    pub const MOST: usize = 1000;
    /// How long the caller of [`claim_set`](Groups::claim_set) holds a set, as in asynq.
    pub const DEADLINE: Duration = Duration::from_secs(120);

    /// Returns the id of the `n`th task that is made of this set, the same at every try, so that it is stored once.
    pub fn task_id(&self, n: usize) -> TaskId {
        match n {
            0 => TaskId::from_wire(&format!("agg:{}", self.id)),
            n => TaskId::from_wire(&format!("agg:{}:{n}", self.id)),
        }
    }
}

/// One task of a set.
#[derive(Debug, Clone)]
pub struct SetMember {
    /// The id of the task.
    pub id: TaskId,
    /// The task, or the bytes that cannot be decoded as one.
    pub message: Result<TaskMessage, UndecodableMessage>,
    /// Facts that asynq's message has no field for.
    pub extra: Extra,
}

/// The outcome of a set.
#[derive(Debug, Clone, Default)]
pub struct SetOutcome {
    /// New tasks of the set's queue, with ids of [`TaskSet::task_id`]. Every task of the set that `alone` does not name is a part of
    /// them, and is deleted.
    pub made: Vec<NewTask>,
    /// Tasks that run by themselves: they become pending, the longest waiting first, with a new count of crashes, and leave their
    /// group for good, so that a retry does not return them to it.
    pub alone: Vec<TaskId>,
    /// Whether this outcome was sent before and got no answer.
    pub resend: bool,
}

impl SetOutcome {
    /// Refuses an outcome with a new task for another queue than the set's.
    pub(crate) fn check(&self, set: &TaskSet) -> Result<(), BrokerError> {
        let Some(misplaced) = self.made.iter().find(|made| made.queue != set.queue) else { return Ok(()) };
        let NewTask { id, queue, .. } = misplaced;
        Err(config(format!(
            "task {id} is made of a set of queue {} and is for queue {queue}: both must be one",
            set.queue
        )))
    }
}

/// The reason why a set was not ended.
#[derive(Clone, thiserror::Error)]
pub enum SetError {
    /// The caller does not hold the set any more.
    #[error(
        "the set is no longer held: its deadline has passed and its tasks are in their group again, or it was ended"
    )]
    Lost,
    /// A new task was refused.
    #[error(transparent)]
    Refused(#[from] Refused),
}

debug_as_text!(SetError);

impl From<BrokerError> for SetError {
    fn from(error: BrokerError) -> Self {
        Self::Refused(Refused::Broker(error))
    }
}
