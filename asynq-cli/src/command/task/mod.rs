//! `task`: one module per verb, those of one task together.

mod bytes;
mod cancel;
mod edit;
mod enqueue;
mod inspect;
mod ls;
mod many;
mod one;

use clap::{Args, Subcommand};

use super::progress::tasks;
use crate::{error::CliError, session::Session};

/// Looks at tasks and repairs them
#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Lists the tasks of a queue in one state, a page at a time
    #[command(name = "ls", alias = "list")]
    Ls(ls::Ls),
    /// Shows everything that is known of a task
    Inspect(inspect::Inspect),
    /// Asks the servers that run tasks to cancel them
    Cancel(cancel::Cancel),
    /// Makes tasks pending, last in line
    Run(one::Run),
    /// Archives tasks, so that they do not run
    Archive(one::Archive),
    /// Deletes tasks
    #[command(aliases = ["remove", "rm"])]
    Delete(one::Delete),
    /// Moves tasks to another queue, in their state
    Move(one::Move),
    /// Makes all scheduled, retry, archived or aggregating tasks of a queue pending
    #[command(name = "run-all", alias = "runall")]
    RunAll(many::RunAll),
    /// Archives all pending, scheduled, retry or aggregating tasks of a queue
    #[command(name = "archive-all", alias = "archiveall")]
    ArchiveAll(many::ArchiveAll),
    /// Deletes all tasks of a queue in one state but active
    #[command(name = "delete-all", alias = "deleteall")]
    DeleteAll(many::DeleteAll),
    /// Enqueues a task of any program
    Enqueue(enqueue::Enqueue),
    /// Replaces the payload of a task that is not running
    Edit(edit::Edit),
}

impl Task {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        match self {
            Self::Ls(command) => command.run(session).await,
            Self::Inspect(command) => command.run(session).await,
            Self::Cancel(command) => command.run(session).await,
            Self::Run(command) => command.run(session).await,
            Self::Archive(command) => command.run(session).await,
            Self::Delete(command) => command.run(session).await,
            Self::Move(command) => command.run(session).await,
            Self::RunAll(command) => command.run(session).await,
            Self::ArchiveAll(command) => command.run(session).await,
            Self::DeleteAll(command) => command.run(session).await,
            Self::Enqueue(command) => command.run(session).await,
            Self::Edit(command) => command.run(session).await,
        }
    }
}

/// One task.
#[derive(Debug, Args)]
struct TheTask {
    /// The queue of the task
    #[arg(short, long)]
    queue: String,
    /// The id of the task
    #[arg(value_name = "ID", required_unless_present = "id")]
    task: Option<String>,
    /// The id of the task, as Go's tool has it
    #[arg(short, long, value_name = "ID", conflicts_with = "task")]
    id: Option<String>,
}

impl TheTask {
    fn id(&self) -> &str {
        self.task.as_deref().or(self.id.as_deref()).unwrap_or_default()
    }
}

/// Tasks of one queue.
#[derive(Debug, Args)]
struct TheTasks {
    /// The queue of the tasks
    #[arg(short, long)]
    queue: String,
    /// Ids of the tasks
    #[arg(value_name = "ID", required_unless_present = "id")]
    tasks: Vec<String>,
    /// An id, as Go's tool has it
    #[arg(short, long, value_name = "ID")]
    id: Vec<String>,
}

impl TheTasks {
    fn ids(&self) -> impl Iterator<Item = &String> {
        self.tasks.iter().chain(&self.id)
    }

    /// Returns `task t1 of queue default`, or `3 tasks of queue default`.
    fn named(&self) -> String {
        let ids: Vec<_> = self.ids().collect();
        let subject = if let [id] = *ids { format!("task {id}") } else { tasks(ids.len() as u64) };
        format!("{subject} of queue {}", self.queue)
    }
}
