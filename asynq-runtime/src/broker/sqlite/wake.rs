//! Wakes waits: those of this process (`notifier`), other programs after a commit of ours (`process_notifier`, and
//! `waiter_notifiers` for programs that only wait for ends), and ours after a commit of theirs (`../watch.rs`, by the log where the
//! system tells of writes to it).

pub(super) mod log_watcher;
pub(super) mod notifier;
pub(super) mod process_notifier;
pub(super) mod waiter_notifiers;

use std::time::Duration;

/// The safety net under notifications: how soon a commit is noticed whose notification was lost.
pub(super) const NET: Duration = Duration::from_millis(100);
