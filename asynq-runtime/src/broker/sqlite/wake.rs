//! Wakes waits: those of this process (`notifier`), other programs after a commit of ours (`process_notifier`, and
//! `waiter_notifiers` for programs that only wait for ends), and ours after a commit of theirs (`watch`, by the log where the
//! system tells of writes to it).

mod log_watcher;
pub(super) mod notifier;
pub(super) mod process_notifier;
pub(super) mod waiter_notifiers;
pub(super) mod watch;
