//! The model's facts about tasks and locks.

use std::time::{Duration, Instant};

use asynq_runtime::task::TaskState;

/// A task and its state.
#[derive(Debug, Clone)]
pub(super) struct Task {
    /// The task's number in the order of creation.
    pub(super) row: u64,
    pub(super) phase: Phase,
    pub(super) lock: Option<String>,
    /// Whether the archived task keeps its lock.
    pub(super) keeps_lock: bool,
    pub(super) group: Option<String>,
    /// In seconds.
    pub(super) retention: i64,
    pub(super) retried: u32,
    pub(super) crashes: u32,
    pub(super) error: Option<String>,
    pub(super) result: Option<String>,
    /// The run that settled the task last.
    pub(super) last: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Phase {
    Pending { since: i64 },
    Active { run: usize, lease: i64 },
    Scheduled { due: i64 },
    Retry { due: i64 },
    Archived { at: i64 },
    Completed { until: i64 },
    Aggregating { joined: i64, set: Option<usize> },
}

impl Phase {
    pub(super) fn state(self) -> TaskState {
        match self {
            Self::Pending { .. } => TaskState::Pending,
            Self::Active { .. } => TaskState::Active,
            Self::Scheduled { .. } => TaskState::Scheduled,
            Self::Retry { .. } => TaskState::Retry,
            Self::Archived { .. } => TaskState::Archived,
            Self::Completed { .. } => TaskState::Completed,
            Self::Aggregating { .. } => TaskState::Aggregating,
        }
    }

    /// The time by which a listing of the task's state is sorted.
    pub(super) fn time(self) -> i64 {
        match self {
            Self::Pending { since } => since,
            Self::Active { lease, .. } => lease,
            Self::Scheduled { due } | Self::Retry { due } => due,
            Self::Archived { at } => at,
            Self::Completed { until } => until,
            Self::Aggregating { joined, .. } => joined,
        }
    }

    /// Whether the task is part of a set.
    pub(super) fn in_set(self) -> bool {
        matches!(self, Self::Aggregating { set: Some(_), .. })
    }
}

/// A unique lock.
#[derive(Debug, Clone)]
pub(super) struct Lock {
    pub(super) holder: String,
    pub(super) end: i64,
    /// When `end` was written. Redis counts a lock's time by its own clock, which goes on while a manual clock stands.
    pub(super) written: Instant,
}

/// The model's knowledge of a lock at a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Hold<'a> {
    Free,
    Held(&'a str),
    /// Redis may have ended the lock by now.
    Doubtful,
}

/// How near its end a lock on Redis is in doubt: longer than any pause of a test process between two steps.
pub(super) const DOUBT: Duration = Duration::from_secs(60);

/// The facts of a task that is enqueued.
#[derive(Debug, Clone)]
pub(super) struct Incoming {
    pub(super) id: String,
    pub(super) due: i64,
    pub(super) group: Option<String>,
    /// The key, and the seconds of the lock.
    pub(super) lock: Option<(String, u64)>,
    pub(super) keeps_lock: bool,
    pub(super) retention: i64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Denied {
    IdConflict,
    Duplicate(String),
}
