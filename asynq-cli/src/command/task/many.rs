//! `task run-all`, `archive-all`, `delete-all`: all tasks in a state, in slices, with progress.

use asynq_runtime::{
    Inspector, TaskState,
    broker::Chosen,
    inspector::{ArchiveRoom, Bulk, BulkReport, InspectError},
    task::GroupName,
};
use clap::Args;
use serde_json::{Value, json};

use super::super::progress::carry_out;
use crate::{
    error::CliError,
    session::Session,
    show::{number, tasks, tasks_of},
};

#[derive(Debug, Args)]
pub(crate) struct ArchiveAll {
    #[command(flatten)]
    all: All,
    /// Also where the archive cannot keep all: its oldest tasks are DELETED
    #[arg(long)]
    beyond_archive: bool,
}

/// Which tasks.
#[derive(Debug, Args)]
pub(crate) struct All {
    /// The queue of the tasks
    #[arg(short, long)]
    queue: String,
    /// The state of the tasks
    #[arg(short, long)]
    state: TaskState,
    /// Only tasks that wait in this group, with --state aggregating
    #[arg(short, long)]
    group: Option<String>,
}

impl ArchiveAll {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        self.all.carry_out(session, Inspector::archive_all, Some("Archive"), "are archived", self.beyond_archive).await
    }
}

/// Asks before so many tasks are archived that the archive cannot keep all. `--yes` alone does not answer it.
pub(super) fn confirm_beyond_archive(
    session: &mut Session,
    question: &str,
    room: ArchiveRoom,
    archived: u64,
    is_allowed: bool,
) -> Result<(), CliError> {
    let beyond = room.beyond(archived);
    let the = if beyond == 1 { "the oldest one" } else { &format!("the {} oldest", number(beyond)) };
    let (limit, holds) = (tasks(room.limit), number(room.archived));
    let question = format!("{question} Its archive keeps {limit} and holds {holds}: {the} will be DELETED.");
    if is_allowed { session.confirm(&question) } else { session.ask(&question, "--yes --beyond-archive") }
}

impl All {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        // They leave their group for good, and a job whose body only aggregates loses them.
        let verb = (self.state == TaskState::Aggregating).then_some("Run by themselves, and not with their group,");
        self.carry_out(session, Inspector::run_all, verb, "are pending now", false).await
    }

    pub(super) async fn delete(self, session: &mut Session) -> Result<(), CliError> {
        self.carry_out(session, Inspector::delete_all, Some("Delete"), "are deleted", false).await
    }

    /// Asks a question if there is a `verb` for it, and runs the bulk call.
    async fn carry_out(
        self,
        session: &mut Session,
        bulk: fn(&Inspector, String, Chosen) -> Bulk,
        verb: Option<&str>,
        done: &str,
        may_exceed_archive: bool,
    ) -> Result<(), CliError> {
        let Self { queue, state, group } = &self;
        let chosen = match group {
            Some(_) if *state != TaskState::Aggregating => {
                return Err(CliError::Usage("--group is for --state aggregating: only they wait in groups".into()));
            }
            Some(group) => Chosen::InGroup(GroupName::from_wire(group)),
            None => Chosen::InState(*state),
        };
        let inspector = session.inspector().await?;
        let bulk = bulk(&inspector, queue.clone(), chosen).start().await?;
        let total = bulk.progress().total;
        if let Some(verb) = verb.filter(|_| total > 0) {
            let question = format!("{verb} {}?", self.named(total));
            match bulk.beyond_archive_limit() {
                0 => session.confirm(&question)?,
                _ => confirm_beyond_archive(session, &question, bulk.archive_room(), total, may_exceed_archive)?,
            }
        }
        let (report, is_stopped) = match carry_out(session, bulk).await {
            Ok(ended) => ended,
            Err(error) => {
                let written = match &error {
                    CliError::Inspect(InspectError::Interrupted { done, .. }) if session.is_json() => {
                        session.answer(&self.report(*done, true), |_| String::new())
                    }
                    _ => Ok(()),
                };
                return CliError::unless_reader_left(written, Err(error));
            }
        };
        let written = session.answer(&self.report(report, is_stopped), |_| match report.changed {
            1 => format!("1 task {}\n", done.replacen("are", "is", 1)),
            n => format!("{} {done}\n", tasks(n)),
        });
        if report.ghosts > 0 {
            session.note(&format!("{} had no task behind their id any more and were taken off", tasks(report.ghosts)));
        }
        if is_stopped {
            let stopped = CliError::Stopped(format!(
                "stopped: {} of {} done, {} left; run the same command to continue",
                number(report.changed + report.ghosts),
                self.named(total),
                number(report.left)
            ));
            return CliError::unless_reader_left(written, Err(stopped));
        }
        if report.left > 0 {
            session.note(&format!("the command did not reach {}; ask again to treat them too", tasks(report.left)));
        }
        if report.beyond_archive_limit > 0 {
            session.note(&format!(
                "the archive is over its limit: a server will delete {}, the oldest first",
                tasks(report.beyond_archive_limit)
            ));
        }
        written
    }

    /// Returns a text such as `3 archived tasks of queue default`.
    fn named(&self, total: u64) -> String {
        let Self { queue, state, group } = self;
        match group {
            Some(group) => format!("{} of group {group} in queue {queue}", tasks(total)),
            None => format!("{} of queue {queue}", tasks_of(state.as_str(), total)),
        }
    }

    /// Returns the object that `--json` prints.
    fn report(&self, report: BulkReport, stopped: bool) -> Value {
        let BulkReport { changed, ghosts, left, beyond_archive_limit, .. } = report;
        json!({
            "queue": self.queue, "state": self.state.as_str(), "group": self.group, "changed": changed, "ghosts": ghosts,
            "left": left, "beyond_archive_limit": beyond_archive_limit, "stopped": stopped,
        })
    }
}
