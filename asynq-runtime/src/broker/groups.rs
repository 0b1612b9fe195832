//! Contract: aggregate the tasks of a group into new ones (docs/design/failures.md#a-set-is-aggregated-twice).

use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};

use super::{BrokerError, NewTask, Refused};
use crate::task::{Extra, GroupName, QueueName, TaskId, TaskMessage, UndecodableMessage};

/// Takes the tasks of a group out as a *set*, and ends the set together with what was made of it.
#[async_trait::async_trait]
pub trait Groups {
    /// A page of the groups of a queue that have waiting tasks, with how many: at most `limit`, from the beginning or from
    /// where the page before ended. What a page costs depends on `limit` alone, so a page may have fewer groups, even none, and
    /// still be followed by another.
    ///
    /// On SQLite they come by name, on Redis some hundred at a time by name: Redis keeps their names in no order. Of two
    /// pages there the second may repeat groups of the first, or leave out a few, if very many groups come or go in between.
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

    /// One group as it is now; `None` if no task waits in it.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn group(&self, queue: &QueueName, group: &GroupName) -> Result<Option<GroupStats>, BrokerError>;

    /// Returns those of `queues` in which there may be groups, by one question about all of them, so that queues without groups
    /// cost an idle server nothing. Default: all.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn worth_aggregating(&self, queues: &[QueueName]) -> Result<Vec<QueueName>, BrokerError> {
        Ok(queues.to_vec())
    }

    /// One step of a walk over the groups of a queue, of some hundred groups: those that are ripe by the rules, of which
    /// [`claim_set`](Self::claim_set) takes sets, and where the walk goes on. A group that is there from the first step to
    /// the last is looked at, on Redis now and then twice; a group of nothing but ids without a task may be named, too.
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

    /// Takes one set out of the group if it is ripe by the rules, the longest waiting first: at most [`TaskSet::MOST`]
    /// tasks, and at most [`GroupRules::max_size`]; fewer where their messages are very large. The set is this caller's
    /// until its deadline, 2 minutes from now, and beyond until somebody takes it back; the state of its tasks stays
    /// aggregating. Ids without a task are dropped from the group.
    ///
    /// A repeat after a lost answer may take a second set; the first one goes back at its deadline.
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

    /// Ends a set: stores what was made of it, frees the unique locks of its tasks and deletes them, all in one
    /// atomic step. Every task of the set must be in the outcome, as a member of what was made or by itself.
    ///
    /// A repeat after a lost answer ([`SetOutcome::resend`]) recognises its first send by a receipt, which is kept for 10
    /// minutes; the new tasks' ids are made of the set's, so that none is stored twice after that.
    ///
    /// # Errors
    ///
    /// [`SetError::Lost`]: its tasks are in their group again, or it was ended otherwise; nothing was changed.
    /// [`SetError::Refused`]: a new task cannot be stored; nothing was changed and the set is still the caller's.
    async fn finish_set(&self, set: &TaskSet, outcome: &SetOutcome) -> Result<(), SetError>;

    /// Puts the tasks of a set back to their group, with the times when they joined it. One that is gone is left gone.
    ///
    /// # Errors
    ///
    /// The broker failed; they go back at the deadline.
    async fn release_set(&self, set: &TaskSet) -> Result<(), BrokerError>;

    /// Puts the tasks of sets whose deadline has passed back to their groups, and makes those groups known again;
    /// at most 100 sets. Returns how many sets.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn reclaim_sets(&self, queue: &QueueName) -> Result<usize, BrokerError>;
}

/// When the tasks of a group become a set. Times are whole seconds on Redis, as asynq keeps them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupRules {
    /// … when no task has joined for this long; at least 1 s. asynq's default: 1 minute.
    pub grace: Duration,
    /// … or when the first one has waited for this long; default never.
    pub max_delay: Option<Duration>,
    /// … or when there are so many; no set is larger. Default no such number.
    pub max_size: Option<usize>,
}

impl Default for GroupRules {
    fn default() -> Self {
        Self { grace: Duration::from_secs(60), max_delay: None, max_size: None }
    }
}

impl GroupRules {
    /// How many tasks make a group ripe by themselves: as many as a set can hold are enough in any case. No set has more.
    pub(crate) fn enough(&self) -> Option<usize> {
        self.max_size.map(|size| size.clamp(1, TaskSet::MOST))
    }
}

/// A group at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupStats {
    /// Its name.
    pub group: GroupName,
    /// Tasks that wait in it.
    pub size: u64,
    /// When the first of them joined it.
    pub oldest: Option<DateTime<Utc>>,
}

impl GroupStats {
    /// The numbers of one group.
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

#[cfg(any(feature = "redis", feature = "sqlite"))]
impl GroupPage {
    /// These groups, and what the next page is to be asked for with.
    pub(crate) fn new(groups: Vec<GroupStats>, next: Option<String>) -> Self {
        Self { groups, next: next.map(GroupStep) }
    }
}

/// The ripe groups of one step of a walk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RipeGroups {
    /// Names of groups of which sets can be taken now.
    pub groups: Vec<GroupName>,
    /// Where the walk goes on; `None` at its end.
    pub next: Option<GroupStep>,
}

#[cfg(any(feature = "redis", feature = "sqlite"))]
impl RipeGroups {
    /// These groups, and what the next step of the walk is to be given.
    pub(crate) fn new(groups: Vec<GroupName>, next: Option<String>) -> Self {
        Self { groups, next: next.map(GroupStep) }
    }
}

/// Where a walk over groups goes on: a word of the broker that gave it, for the same kind of walk. It can be kept as text; on a
/// word that no broker gave, the walk goes on anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStep(String);

impl GroupStep {
    /// Reads a step that was kept as text.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text to keep.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Tasks taken out of a group together.
#[derive(Debug, Clone)]
pub struct TaskSet {
    /// Their queue.
    pub queue: QueueName,
    /// Their group.
    pub group: GroupName,
    /// Names the set: a UUID.
    pub id: String,
    /// Its number on SQLite, 0 elsewhere.
    pub number: i64,
    /// Until when it is ours.
    pub deadline: DateTime<Utc>,
    /// The tasks, in the order in which they joined.
    pub members: Vec<SetMember>,
}

impl TaskSet {
    /// Most tasks of a set: a group of any size is taken in slices that no broker feels.
    pub const MOST: usize = 1000;
    /// How long a set is its taker's, as in asynq.
    pub const DEADLINE: Duration = Duration::from_secs(120);

    /// The id of the `n`th task that is made of this set: the same at every try, so that it is stored once.
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
    /// Its id.
    pub id: TaskId,
    /// The task, or the bytes that are none.
    pub message: Result<TaskMessage, UndecodableMessage>,
    /// What the message cannot carry.
    pub extra: Extra,
}

/// What becomes of a set.
#[derive(Debug, Clone, Default)]
pub struct SetOutcome {
    /// New tasks of the same queue, with ids of [`TaskSet::task_id`]. Every task of the set that is named below nowhere
    /// is a part of them, and is deleted.
    pub made: Vec<NewTask>,
    /// Tasks that run by themselves: they become pending, the longest waiting first, and leave their group for good, so
    /// that a retry does not lead back to it.
    pub alone: Vec<TaskId>,
    /// Tasks that cannot be a part of anything, with the reason: archived, not counted.
    pub rejected: Vec<Rejected>,
    /// Whether this was sent before without an answer.
    pub resend: bool,
}

/// A task of a set that is archived instead.
#[derive(Debug, Clone)]
pub struct Rejected {
    /// Its id.
    pub id: TaskId,
    /// Why, for people; cut to 4 KiB.
    pub error: String,
    /// The raw bytes of one that could not be decoded: they become the payload of a message made in its place, so that
    /// nothing is lost. `None` where the message can be read.
    pub raw: Option<Bytes>,
}

/// Why a set was not ended.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SetError {
    /// It is not ours any more.
    #[error(
        "the set is not ours any more: its time had passed and its tasks are in their group again, or it was ended"
    )]
    Lost,
    /// A new task was refused.
    #[error(transparent)]
    Refused(#[from] Refused),
}

impl From<BrokerError> for SetError {
    fn from(error: BrokerError) -> Self {
        Self::Refused(Refused::Broker(error))
    }
}
