//! The list of servers in the file, as the threads and the housekeeping of a broker read it.

use std::path::PathBuf;

use super::{
    liveness::{Liveness, LivenessStatus},
    sql,
    tx::View,
};

/// For how long a server counts as alive without a beat.
pub(super) const BEAT_TIMEOUT_MS: i64 = 10_000;

/// A server on the list.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) number: i64,
    pub(super) file: String,
    /// When the last beat of the server came, in Unix milliseconds.
    pub(super) beat_at: i64,
}

/// Returns the sockets of the other programs on the file.
pub(super) fn other_notifier_paths(view: &View<'_>, liveness: &Liveness) -> Vec<PathBuf> {
    let others = everyone(view).unwrap_or_default().into_iter().filter(|server| server.file != liveness.name());
    others.filter_map(|server| liveness.notifier_of(&server.file)).collect()
}

/// Returns every server on the list.
pub(super) fn everyone(view: &View<'_>) -> rusqlite::Result<Vec<Listed>> {
    view.list(&sql::presence::EVERYONE, [], |row| {
        Ok(Listed { number: row.get(0)?, file: row.get(1)?, beat_at: row.get(2)? })
    })
}

/// Whether the last beat of every server on the list is old, although the process of one of them lives.
pub(super) fn all_are_late(view: &View<'_>, liveness: &Liveness) -> rusqlite::Result<bool> {
    let servers = everyone(view)?;
    let latest_beat = servers.iter().map(|server| server.beat_at).max();
    let is_late = latest_beat.is_some_and(|at| at <= view.now.saturating_sub(BEAT_TIMEOUT_MS));
    Ok(is_late && servers.iter().any(|server| matches!(liveness.look(&server.file), LivenessStatus::Alive)))
}

/// Whether a server holds a task.
pub(super) fn runs_something(view: &View<'_>, server: i64) -> rusqlite::Result<bool> {
    Ok(view.find(&sql::presence::RUNS_SOMETHING, [server], |row| row.get(0))?.unwrap_or(false))
}

/// Takes the servers of `file` that hold no task off the list; returns whether none of `file` is left on it.
pub(super) fn forget_idle(view: &View<'_>, file: &str) -> rusqlite::Result<bool> {
    let mut all = true;
    for server in everyone(view)?.into_iter().filter(|server| server.file == file) {
        if runs_something(view, server.number)? {
            all = false;
        } else {
            view.execute(&sql::presence::LEAVE, [server.number])?;
        }
    }
    Ok(all)
}
