//! Contract: what a broker says of itself, and what in a queue does not fit together.
//!
//! A sound broker never shows an oddity for longer than its janitor needs. What is found is told, never repaired here.

use std::{fmt, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};

use super::BrokerError;
use crate::task::QueueName;

/// Looks at the broker itself.
#[async_trait::async_trait]
pub trait Diagnose {
    /// The stores that keep the tasks: one Redis, each master of a cluster, or the SQLite file. A fact that the login
    /// may not ask for is left out.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn nodes(&self) -> Result<Vec<Node>, BrokerError>;

    /// Where a cluster keeps the keys of these queues, in their order; empty where there is no cluster.
    ///
    /// # Errors
    ///
    /// The broker failed, or its login may not ask.
    async fn slots(&self, queues: &[QueueName]) -> Result<Vec<QueueSlot>, BrokerError> {
        let _ = queues;
        Ok(Vec::new())
    }

    /// Looks for what does not fit together in a queue, at up to `limit` tasks in each of its places and `limit` keys; at
    /// least one slice each. It changes nothing and may run beside workers: what only looks odd because it moves just now
    /// is looked at a second time.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn examine(&self, queue: &QueueName, limit: usize) -> Result<Examination, BrokerError>;
}

/// One server or file that keeps tasks.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Node {
    /// Where it is, for people; without a password.
    pub address: String,
    /// The version of Redis or SQLite.
    pub version: String,
    /// How far its clock is ahead of this program's; negative when it is behind.
    pub ahead: TimeDelta,
    /// How much that may be off: half the time that the question took.
    pub precision: Duration,
    /// What it says of itself, in its own words and order.
    pub facts: Vec<Fact>,
    /// Its slowest calls of late, the newest first; `None` where it keeps no list or does not show it.
    pub slow_calls: Option<Vec<SlowCall>>,
}

impl Node {
    /// A node of which nothing more is known.
    pub fn new(address: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            version: version.into(),
            ahead: TimeDelta::zero(),
            precision: Duration::ZERO,
            facts: Vec::new(),
            slow_calls: None,
        }
    }

    /// The value of a fact, if it was told.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts.iter().find(|fact| fact.name == name).map(|fact| fact.value.as_str())
    }

    /// The value of a fact that is a whole number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.fact(name)?.parse().ok()
    }
}

/// Where a cluster keeps a queue: all of its keys are in one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSlot {
    /// The queue.
    pub queue: QueueName,
    /// The hash slot of its keys, 0 to 16383.
    pub slot: u16,
    /// The addresses of the nodes that have the slot, the master first; empty while none has it.
    pub nodes: Vec<String>,
}

/// One thing that a node says of itself, such as `memory: maxmemory_policy = noeviction`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What it is about: the section of Redis's INFO, or `file` and `integrity`.
    pub section: String,
    /// Its name there.
    pub name: String,
    /// Its value as text.
    pub value: String,
}

/// A call that took a node long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowCall {
    /// When, by the node's clock.
    pub at: DateTime<Utc>,
    /// How long it kept the node.
    pub took: Duration,
    /// The command and, of a script, its keys; never a payload.
    pub what: String,
}

/// What was found in a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Examination {
    /// What does not fit, by kind; empty where all does.
    pub oddities: Vec<Oddity>,
    /// Whether everything was looked at; otherwise the limit came first.
    pub complete: bool,
}

impl Examination {
    /// How often a kind was found.
    pub fn count(&self, kind: OddityKind) -> u64 {
        self.oddities.iter().find(|oddity| oddity.kind == kind).map_or(0, |oddity| oddity.count)
    }

    /// Adds what another look found in other places.
    #[cfg(feature = "sqlite")]
    pub(crate) fn add_all(&mut self, other: Self) {
        self.complete &= other.complete;
        for Oddity { kind, count, examples } in other.oddities {
            let shown = examples.len() as u64;
            for example in examples {
                self.add(kind, example);
            }
            if let Some(oddity) = self.oddities.iter_mut().find(|oddity| oddity.kind == kind) {
                oddity.count += count - shown;
            }
        }
    }

    #[cfg(any(feature = "redis", feature = "sqlite"))]
    pub(crate) fn add(&mut self, kind: OddityKind, example: impl Into<String>) {
        let at = self.oddities.binary_search_by_key(&kind, |oddity| oddity.kind).unwrap_or_else(|at| {
            self.oddities.insert(at, Oddity { kind, count: 0, examples: Vec::new() });
            at
        });
        let oddity = &mut self.oddities[at];
        oddity.count += 1;
        if oddity.examples.len() < Oddity::EXAMPLES {
            oddity.examples.push(example.into());
        }
    }
}

/// Things of one kind that do not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oddity {
    /// What is wrong.
    pub kind: OddityKind,
    /// How often it was found.
    pub count: u64,
    /// The first of them: ids of tasks, or keys.
    pub examples: Vec<String>,
}

impl Oddity {
    /// Most examples that are kept of a kind.
    pub const EXAMPLES: usize = 10;
}

/// What can be wrong in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OddityKind {
    /// An active task without a lease: no server would notice the death of its worker.
    ActiveWithoutLease,
    /// A lease of a task that is not active.
    LeaseWithoutTask,
    /// An id in a place of the queue with no task behind it.
    IdWithoutTask,
    /// A task that is in no list of the queue, so that no server will ever run it.
    TaskWithoutPlace,
    /// A task that is in another place than its state says.
    TaskInWrongPlace,
    /// A unique lock that a task holds which does not exist.
    LockWithoutTask,
    /// A key with a name of asynq's that holds something else.
    ForeignKey,
    /// A count of tasks that is not their number.
    WrongCount,
}

impl OddityKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::ActiveWithoutLease,
        Self::LeaseWithoutTask,
        Self::IdWithoutTask,
        Self::TaskWithoutPlace,
        Self::TaskInWrongPlace,
        Self::LockWithoutTask,
        Self::ForeignKey,
        Self::WrongCount,
    ];

    /// Its name, for programs: `active-without-lease`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ActiveWithoutLease => "active-without-lease",
            Self::LeaseWithoutTask => "lease-without-task",
            Self::IdWithoutTask => "id-without-task",
            Self::TaskWithoutPlace => "task-without-place",
            Self::TaskInWrongPlace => "task-in-wrong-place",
            Self::LockWithoutTask => "lock-without-task",
            Self::ForeignKey => "foreign-key",
            Self::WrongCount => "wrong-count",
        }
    }

    #[cfg(feature = "redis")]
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
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
    fn oddities_are_counted_by_kind_and_ten_examples_kept() {
        let mut found = Examination::default();
        for n in 0..12 {
            found.add(OddityKind::LockWithoutTask, n.to_string());
        }
        found.add(OddityKind::ActiveWithoutLease, "a");
        assert_eq!(found.oddities.len(), 2);
        assert_eq!(found.oddities[0].kind, OddityKind::ActiveWithoutLease, "in the order of the kinds");
        assert_eq!((found.count(OddityKind::LockWithoutTask), found.oddities[1].examples.len()), (12, 10));
        assert_eq!(found.count(OddityKind::ForeignKey), 0);
    }

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        for kind in OddityKind::ALL {
            assert_eq!(OddityKind::named(kind.as_str()), Some(kind));
        }
        assert_eq!(OddityKind::named("fine"), None);
    }
}
