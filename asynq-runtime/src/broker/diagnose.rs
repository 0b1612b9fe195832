//! Contract: a broker's facts about itself, and inconsistencies in a queue.
//!
//! A sound broker never shows an inconsistency for longer than its janitor needs. Inconsistencies are reported, never repaired
//! here.

use std::{fmt, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};

use super::BrokerError;
use crate::task::QueueName;

/// Reads facts about the broker itself.
#[async_trait::async_trait]
pub trait Diagnose {
    /// Returns the stores that keep the tasks: one Redis, each master of a cluster, or the SQLite file. Facts that the login may
    /// not read are left out.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn nodes(&self) -> Result<Vec<Node>, BrokerError>;

    /// Returns why a node takes no writes now, without the facts of [`nodes`](Self::nodes) that cost a long look.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn write_refusal(&self) -> Result<Option<WriteRefusal>, BrokerError> {
        Ok(self.nodes().await?.into_iter().find_map(|node| node.refuses_writes))
    }

    /// Returns the cluster slots of these queues, in their order; empty without a cluster, which is the default.
    ///
    /// # Errors
    ///
    /// The broker failed, or the login may not read the slots.
    async fn slots(&self, _queues: &[QueueName]) -> Result<Vec<QueueSlot>, BrokerError> {
        Ok(Vec::new())
    }

    /// Returns the keys by which [`examine_with`](Self::examine_with) finds tasks without a place and locks without a task. On Redis one
    /// walk over about `limit` of all keys finds them. Default: none, because a file needs no walk.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn keys_of(&self, _queue: &QueueName, _limit: usize) -> Result<QueueKeys, BrokerError> {
        Ok(QueueKeys { names: Vec::new(), complete: true })
    }

    /// Returns the same for each of the `listed` queues, in their order, and then for each further queue that has tasks or locks on a
    /// server where a listed one or the list is, by name. One walk over the keys of a Redis finds those of all its queues. Default: the
    /// listed ones alone, because a file has no others.
    ///
    /// # Errors
    ///
    /// The broker failed; a part of a cluster that is away fails its own queues alone.
    async fn keys_of_all(
        &self,
        listed: &[QueueName],
        limit: usize,
    ) -> Vec<(QueueName, Result<QueueKeys, BrokerError>)> {
        let mut keys = Vec::with_capacity(listed.len());
        for queue in listed {
            keys.push((queue.clone(), self.keys_of(queue, limit).await));
        }
        keys
    }

    /// Looks for inconsistencies in a queue, at its `keys` and at up to `limit` groups and tasks in each of its places, but at least
    /// one slice of each. The call changes nothing and may run beside workers: a task that only looks inconsistent because it is
    /// moving is looked at a second time.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn examine_with(&self, queue: &QueueName, keys: &QueueKeys, limit: usize)
    -> Result<Examination, BrokerError>;

    /// Looks for inconsistencies in one queue, with a walk over keys of its own.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn examine(&self, queue: &QueueName, limit: usize) -> Result<Examination, BrokerError> {
        let keys = self.keys_of(queue, limit).await?;
        self.examine_with(queue, &keys, limit).await
    }
}

/// One server or file that keeps tasks.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Node {
    /// The address for display, without a password.
    pub address: String,
    /// The version of Redis or SQLite.
    pub version: String,
    /// How far the node's clock is ahead of this program's; negative if it is behind.
    pub ahead: TimeDelta,
    /// The error bound of `ahead`: half the time that the request took.
    pub precision: Duration,
    /// The node's facts about itself, with its names and in its order; one that answers has some, unless the login may not ask.
    pub facts: Vec<Fact>,
    /// Its slowest recent calls, the newest first; `None` if the node keeps no list or does not show it.
    pub slow_calls: Option<Vec<SlowCall>>,
    /// The `host:port` at which this program reaches a Redis, or the path of its socket; `None` for a file, or if the node is away.
    pub endpoint: Option<String>,
    /// The reason for which the node takes no writes now; `None` if it takes them, or if the login may not ask.
    ///
    /// A server cannot report then that it runs, so [`Presence::servers`](super::Presence::servers) returns an old list, and
    /// that of a file none.
    pub refuses_writes: Option<WriteRefusal>,
}

impl Node {
    /// Makes a node of which only address and version are known.
    pub fn new(address: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            version: version.into(),
            ahead: TimeDelta::zero(),
            precision: Duration::ZERO,
            facts: Vec::new(),
            slow_calls: None,
            endpoint: None,
            refuses_writes: None,
        }
    }

    /// Returns the value of a fact, if the node reported it.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts.iter().find(|fact| fact.name == name).map(|fact| fact.value.as_str())
    }

    /// Returns how a Redis runs: `standalone`, `cluster` or `sentinel`. Redis and Valkey have different names for the fact.
    pub fn mode(&self) -> Option<&str> {
        self.fact("redis_mode").or_else(|| self.fact("server_mode"))
    }

    /// Returns the value of a fact if it is a whole number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.fact(name)?.parse().ok()
    }
}

/// The reason for which a node takes no writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteRefusal {
    /// The node is a replica.
    Replica,
    /// Fewer replicas follow the node than its `min-replicas-to-write` asks for.
    TooFewReplicas,
    /// A snapshot failed, or the append-only file cannot be written.
    CannotSave,
    /// No server that lives can write to the SQLite file, mostly because another program holds the write lock; the fact `write_error`
    /// says why.
    Locked,
}

/// The place of a queue in a cluster: all of its keys are in one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSlot {
    /// The queue.
    pub queue: QueueName,
    /// The hash slot of its keys, 0 to 16383.
    pub slot: u16,
    /// The addresses of the nodes that serve the slot, the master first; empty if none does.
    pub nodes: Vec<String>,
}

/// A node's fact about itself, such as `memory: maxmemory_policy = noeviction`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// The section of Redis's INFO, or `file` or `integrity`.
    pub section: String,
    /// The name of the fact.
    pub name: String,
    /// The value as text.
    pub value: String,
}

/// A call that occupied a node for long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowCall {
    /// When the call ran, by the node's clock.
    pub at: DateTime<Utc>,
    /// How long the call occupied the node.
    pub took: Duration,
    /// The command and, of a script, its keys; never a payload.
    pub command: String,
}

/// Keys of the tasks and the unique locks of a queue, as a walk over all keys found them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueKeys {
    /// The keys, in no particular order. Some may be gone by now.
    pub names: Vec<String>,
    /// Whether the walk came to its end; `false` if the limit was reached before.
    pub complete: bool,
}

/// The result of looking for inconsistencies in a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Examination {
    /// The inconsistencies by kind; empty if there are none.
    pub oddities: Vec<Oddity>,
    /// Whether everything was looked at; `false` if the limit was reached before.
    pub complete: bool,
}

impl Examination {
    /// Returns how often a kind was found.
    pub fn count(&self, kind: OddityKind) -> u64 {
        self.oddities.iter().find(|oddity| oddity.kind == kind).map_or(0, |oddity| oddity.count)
    }

    pub(crate) fn add(&mut self, kind: OddityKind, example: impl Into<String>) {
        let at = self.oddities.binary_search_by_key(&kind, |oddity| oddity.kind).unwrap_or_else(|at| {
            self.oddities.insert(at, Oddity { kind, count: 0, examples: Vec::new() });
            at
        });
        let oddity = &mut self.oddities[at];
        oddity.count += 1;
        if oddity.examples.len() < EXAMPLES {
            oddity.examples.push(example.into());
        }
    }
}

/// The inconsistencies of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oddity {
    /// The kind.
    pub kind: OddityKind,
    /// How often the kind was found.
    pub count: u64,
    /// The first examples, at most 1,000: ids of tasks, or keys.
    pub examples: Vec<String>,
}

/// Most examples that are kept per kind: as many as one command can name.
const EXAMPLES: usize = 1_000;

/// A kind of inconsistency in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OddityKind {
    /// An active task without a lease: no server would notice the death of its worker.
    ActiveWithoutLease,
    /// A lease of a task that is not active.
    LeaseWithoutTask,
    /// An id in a place of the queue, without a task.
    IdWithoutTask,
    /// A task in no list of the queue, or in a group that is missing from the set of groups; no server would ever run it, or none until
    /// another task joins the group.
    TaskWithoutPlace,
    /// A task in another place than its state says.
    TaskInWrongPlace,
    /// A task that a move to another queue holds. Where the move does not go on, no worker ever runs it.
    TaskBeingMoved,
    /// A unique lock whose holder does not exist.
    LockWithoutTask,
    /// A key with one of asynq's names and a value of another kind.
    ForeignKey,
    /// A stored count of tasks that differs from their number.
    WrongCount,
}

impl OddityKind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[
        Self::ActiveWithoutLease,
        Self::LeaseWithoutTask,
        Self::IdWithoutTask,
        Self::TaskWithoutPlace,
        Self::TaskInWrongPlace,
        Self::TaskBeingMoved,
        Self::LockWithoutTask,
        Self::ForeignKey,
        Self::WrongCount,
    ];

    /// Returns the name for programs: `active-without-lease`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ActiveWithoutLease => "active-without-lease",
            Self::LeaseWithoutTask => "lease-without-task",
            Self::IdWithoutTask => "id-without-task",
            Self::TaskWithoutPlace => "task-without-place",
            Self::TaskInWrongPlace => "task-in-wrong-place",
            Self::TaskBeingMoved => "task-being-moved",
            Self::LockWithoutTask => "lock-without-task",
            Self::ForeignKey => "foreign-key",
            Self::WrongCount => "wrong-count",
        }
    }

    #[cfg(feature = "redis")]
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }
}

impl fmt::Display for OddityKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(all(test, feature = "redis"))]
mod tests {
    use super::*;

    #[test]
    fn oddities_are_counted_by_kind_and_a_thousand_examples_kept() {
        let mut found = Examination::default();
        for n in 0..1_002 {
            found.add(OddityKind::LockWithoutTask, n.to_string());
        }
        found.add(OddityKind::ActiveWithoutLease, "a");
        assert_eq!(found.oddities.len(), 2);
        assert_eq!(found.oddities[0].kind, OddityKind::ActiveWithoutLease, "in the order of the kinds");
        assert_eq!((found.count(OddityKind::LockWithoutTask), found.oddities[1].examples.len()), (1_002, 1_000));
        assert_eq!(found.count(OddityKind::ForeignKey), 0);
    }

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        for &kind in OddityKind::ALL {
            assert_eq!(OddityKind::named(kind.as_str()), Some(kind));
        }
        assert_eq!(OddityKind::named("fine"), None);
    }
}
