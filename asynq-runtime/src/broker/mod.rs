//! The contract of a broker: twelve small traits, one file each, with equal file names in every implementation's folder.
//!
//! A task's journey is one word per step: *produce → consume → settle → maintain*, and *groups* makes one task of many.
//! *Presence* shows the servers that run, *inspect* and *diagnose* read, *repair* makes the changes that people ask for,
//! *schedule* fires periodic entries, *semaphores* count across programs, and *shapes* let a program read payloads that another
//! version of it wrote. Every primitive of the hot path takes a batch. The single form is a batch of one, so that a busy server
//! does not pay one round trip per task.
//!
//! Rules that hold for every method of every broker:
//!
//! - **Time is the broker's.** Delays are given as durations and added to the broker's clock; a caller's clock decides
//!   nothing.
//! - **Times are whole milliseconds**, in the store as in answers: a due time is rounded up, and the broker's own time down. Where a
//!   broker keeps whole seconds, the contract says so.
//! - **Every call has a deadline.** A call that gets no answer ends with [`BrokerError::is_unavailable`]. It is never repeated
//!   blindly, because its first send may have worked. Each contract says how a repeat is made safe.
//! - **A batch has one answer per item**, in the order of the items.
//! - **Brokers move opaque bytes**: they know messages, never jobs.
//!
//! Another broker needs a folder here with a file for each contract, and `Broker` with `Sealed` in its `mod.rs`; a feature of the
//! crate, also in the conditions of what one broker alone uses today (`grep -rn 'cfg(feature' asynq-runtime/src/{broker,task,clock.rs}`);
//! its schemes in `connect_on` (`connect.rs` of the crate), also in the arm for those that are not built in; and a fixture in
//! `tests/src`, with which every case of `tests/conformance` runs on it.

// A build without a broker, in which nothing uses what the brokers share, only has to compile.
#![cfg_attr(not(any(feature = "redis", feature = "sqlite")), allow(dead_code, unused_imports))]

mod consume;
mod diagnose;
mod error;
mod groups;
mod inspect;
mod maintain;
mod percent;
mod presence;
mod produce;
mod repair;
mod schedule;
mod semaphore;
mod settle;
mod shapes;
mod task_end;
mod timeouts;
mod token;

#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sqlite")]
pub mod sqlite;

use std::{fmt, ops::Add, time::Duration};

use chrono::{DateTime, Utc};

#[cfg(feature = "redis")]
pub(crate) use self::{error::unavailable, produce::PART};
pub(crate) use self::{
    error::{config, corrupt},
    produce::{due_ms, part},
    semaphore::SAME_CLOCK,
    settle::shortened,
    task_end::Retries,
};
// Types that programs use: errors, and the results of the inspector.
pub use self::{
    diagnose::{Examination, Fact, Node, Oddity, OddityKind, QueueSlot, SlowCall, WriteRefusal},
    error::{BrokerError, BrokerErrorKind},
    groups::{GroupPage, GroupStats, GroupStep},
    inspect::{DayStats, Failure, LockInfo, LockPage, Page, QueueStats, TaskBrief},
    presence::{ServerName, ServerState},
    produce::Refused,
    repair::{BulkAction, Changed, Chosen, EditError, QueueDeleted},
    schedule::{EntryId, EntryState, Overlap},
};
// The contracts, between the brokers and the crates of this project: they change with any version.
#[doc(hidden)]
pub use self::{
    consume::{Consume, Quarantined, Run, RunKey, RunToken, Wanted},
    diagnose::{Diagnose, QueueKeys},
    groups::{GroupRules, Groups, RipeGroups, SetError, SetMember, SetOutcome, TaskSet},
    inspect::Inspect,
    maintain::{ArchivePolicy, Forwarded, HeldLock, Maintain, Recovered, RetryOrder, Swept},
    presence::{Cancellations, Member, Presence},
    produce::{NewTask, Placed, Produce, Replaces, UniqueLock, When},
    repair::{BulkSlice, PayloadEdit, Repair},
    schedule::{Candidate, EntryPlan, Lead, PlanChange, Planned, Schedules, Tick, Ticked},
    sealed::Sealed,
    semaphore::Semaphores,
    settle::{Action, Settle, Settled, Settlement},
    shapes::{JoinShapes, LARGEST_SHAPE, NewShape, SHAPE_TTL, Shapes, StoredShapes},
    task_end::TaskEnd,
};

mod sealed {
    /// Keeps [`Broker`](super::Broker) to the brokers of this project, so that a contract may gain a method in any version.
    pub trait Sealed {}
}

/// Most bytes of messages that one call carries to or from a broker, but for a single task that is larger: on a slow network the call
/// has to end within its time, and a broker that does nothing else meanwhile has to come to the calls of others.
pub(crate) const CALL_BYTES: usize = 4 << 20;

/// The longest wait: the end of a longer one may lie beyond the range of the clock.
const FAR: Duration = Duration::from_secs(365 * 86_400);

/// Returns the end of a wait that began at `begun`, and which lasts no longer than [`FAR`].
pub(crate) fn far<I: Add<Duration, Output = I>>(begun: I, limit: Duration) -> I {
    begun + limit.min(FAR)
}

/// Keeps the tasks. Redis and SQLite implement it, and no type of another crate should: its contracts may gain methods in any
/// version, so they are not part of the documentation. A [`Client`](crate::Client) and an [`Inspector`](crate::Inspector) offer
/// the operations that programs need.
///
/// `Arc<dyn Broker>` is the `dyn` boundary of the crate: above it no type has a broker as a type parameter.
#[async_trait::async_trait]
pub trait Broker:
    Produce
    + Consume
    + Settle
    + Maintain
    + Groups
    + Presence
    + Inspect
    + Diagnose
    + Repair
    + Schedules
    + Semaphores
    + Sealed
    + Shapes
    + fmt::Debug
    + Send
    + Sync
    + 'static
{
    /// Returns `redis` or `sqlite`.
    fn kind(&self) -> &'static str;

    /// Returns the address of the tasks for display: the URL without its password.
    fn location(&self) -> String;

    /// Returns how long a server holds a dequeued task without extending its lease: 30 s on Redis, 10 s on SQLite.
    fn lease(&self) -> Duration;

    /// Returns how long one call may take by the broker's own limits. Callers wait for an answer at least this long, and 15 s in
    /// any case. Default: zero.
    #[doc(hidden)]
    fn call_limit(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the broker's time as well as this process knows it. The value is for display and for messages. A client makes the
    /// deadline and the expiry of a task from it, and a server compares both with it before the task starts; every other decision is
    /// the broker's own.
    fn now(&self) -> DateTime<Utc>;

    /// Waits until this broker cannot be used again for as long as the program runs, because its file was deleted for example,
    /// and returns the reason. Default: never returns, because the broker may come back.
    async fn broken(&self) -> BrokerError {
        std::future::pending().await
    }

    /// Checks that the broker answers.
    ///
    /// # Errors
    ///
    /// The broker does not answer, or refuses the connection.
    async fn ping(&self) -> Result<(), BrokerError>;

    /// Returns this broker if the tasks are in SQLite, where a program's own transaction can enqueue them. Default: `None`.
    #[doc(hidden)]
    #[cfg(feature = "sqlite")]
    fn as_sqlite(&self) -> Option<&sqlite::SqliteBroker> {
        None
    }

    /// Closes connections and ends background work; later calls fail with [`BrokerErrorKind::Closed`]. Idempotent.
    async fn close(&self);
}
