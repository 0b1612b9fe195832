//! `cron`: one module per verb.

mod change;
mod history;
mod ls;

use std::collections::BTreeSet;

use asynq_cron::Schedule;
use asynq_runtime::task::SchedulerEntry;
use clap::Subcommand;

use crate::{error::CliError, session::Session};

/// Looks at periodic entries, runs and pauses them
#[derive(Debug, Subcommand)]
pub(crate) enum Cron {
    /// Lists the periodic entries of all schedulers that live, ours and Go's
    ///
    /// With --json: an array of objects with `id`, `spec`, `meaning` (the spec in English), `type`, `queue`, `payload`,
    /// `options`, `next_at`, `previous_at`, `paused`; one that cannot be read has `paused` null and `error`.
    #[command(name = "ls", alias = "list")]
    Ls,
    /// Shows the tasks that entries enqueued, the newest first
    ///
    /// With --json: an array of objects with `entry`, `enqueued` (`task_id`, `at`) and `error`.
    History(history::History),
    /// Enqueues the tasks of entries once, now, beside their schedule
    ///
    /// With --json: an array of objects with `entry`, `task_id`, `queue` and `error`.
    Run(change::Which),
    /// Stops entries from firing until they are resumed, through restarts
    ///
    /// Entries of Go's scheduler cannot be paused: it does not look. With --json: an array of objects with `entry`,
    /// `paused`, `changed` and `error`.
    Pause(change::Which),
    /// Lets entries go on with their next tick; missed ones are not made up for
    ///
    /// With --json: an array of objects with `entry`, `paused`, `changed` and `error`.
    #[command(alias = "unpause")]
    Resume(change::Which),
}

impl Cron {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        match self {
            Self::Ls => ls::run(session).await,
            Self::History(command) => command.run(session).await,
            Self::Run(which) => which.run(session).await,
            Self::Pause(which) => which.set(session, true).await,
            Self::Resume(which) => which.set(session, false).await,
        }
    }
}

/// Most entries of a type that an error names.
const NAMED: usize = 5;

/// Returns the listed entry of this id.
fn listed<'a>(entries: &'a [SchedulerEntry], id: &str) -> Result<&'a SchedulerEntry, CliError> {
    entries.iter().find(|entry| entry.id == id).ok_or_else(|| CliError::NotFound(not_found(entries, id)))
}

/// Returns why no entry has this id. A job's type stands beside the ids in `cron ls`.
fn not_found(entries: &[SchedulerEntry], id: &str) -> String {
    let ids: BTreeSet<&str> = entries.iter().filter(|entry| entry.task_type == id).map(|entry| &*entry.id).collect();
    if ids.is_empty() {
        return format!(
            "periodic entry `{id}` was not found: no running scheduler lists it; `asynq cron ls` shows those there are"
        );
    }
    let named: Vec<String> = ids.iter().take(NAMED).map(|id| format!("`{id}`")).collect();
    let more = if ids.len() > NAMED { ", …" } else { "" };
    format!("`{id}` is a type and not the id of a periodic entry; its entries are {}{more}", named.join(", "))
}

async fn schedule(session: &mut Session) -> Result<Schedule, CliError> {
    Ok(Schedule::new(&session.client().await?))
}
