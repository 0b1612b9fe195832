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

use super::several::once;
use crate::{error::CliError, session::Session, show::tasks};

/// Looks at tasks and repairs them
#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Lists the tasks of a queue in one state, a page at a time
    ///
    /// Arguments of the default codec are shown by the shapes that the broker keeps, secret ones as ***.
    ///
    /// With --json: an array of tasks. A message that cannot be read is left out.
    #[command(name = "ls", alias = "list")]
    Ls(ls::Ls),
    /// Shows everything that is known of a task
    ///
    /// Arguments of the default codec are shown by the shape that the broker keeps of them, secret ones as ***.
    ///
    /// With --json: the object of the task, as in `task ls --json`, with `failures`.
    Inspect(inspect::Inspect),
    /// Asks the servers that run tasks to cancel them
    ///
    /// A run that is cancelled counts as failed, so its task is retried. Requests are not acknowledged, as in asynq. A run that has no
    /// worker any more is ended.
    ///
    /// With --json: an array of objects with `id`, `ended_in` (queues in which no worker ran it and it was ended) and
    /// `error`.
    Cancel(cancel::Cancel),
    /// Makes tasks pending, at the end of their queue
    ///
    /// Does not ask: a task that has succeeded runs a second time, and one of a group by itself.
    ///
    /// With --json: an array of objects with `id`, `queue`, `done` ("run") and `error`.
    Run(TheTasks),
    /// Archives tasks, so that they do not run
    ///
    /// Asks first where the archive cannot keep them all: its oldest tasks would be DELETED, and --yes does not answer
    /// that.
    ///
    /// With --json: an array of objects with `id`, `queue`, `done` ("archived") and `error`.
    Archive(one::Archive),
    /// Deletes tasks
    ///
    /// Asks first, unless --yes is given. With --json: an array of objects with `id`, `queue`, `done` ("deleted") and
    /// `error`.
    #[command(aliases = ["remove", "rm"])]
    Delete(TheTasks),
    /// Moves tasks to another queue, in their state
    ///
    /// Asks first where the archive of the other queue cannot keep the archived ones: its oldest tasks would be DELETED,
    /// often the moved ones, which keep the time at which they were archived. --yes does not answer that.
    ///
    /// With --json: an array of objects with `id`, `queue`, `done` ("moved"), `to` and `error`.
    Move(one::Move),
    /// Makes all scheduled, retry, archived or aggregating tasks of a queue pending
    ///
    /// Asks first about aggregating ones, unless --yes is given: each runs by itself and not with its group.
    ///
    /// With --json: an object with `queue`, `state`, `group`, `changed`, `ghosts`, `left`, `beyond_archive_limit`,
    /// `stopped`.
    #[command(name = "run-all", alias = "runall")]
    RunAll(many::All),
    /// Archives all pending, scheduled, retry or aggregating tasks of a queue
    ///
    /// Asks first, unless --yes is given. An archive keeps 10,000 tasks unless a server says otherwise, and the oldest
    /// of those that are more are DELETED: the question says how many that would be, and --yes does not answer it.
    ///
    /// With --json: an object with `queue`, `state`, `group`, `changed`, `ghosts`, `left`, `beyond_archive_limit`,
    /// `stopped`.
    #[command(name = "archive-all", alias = "archiveall")]
    ArchiveAll(many::ArchiveAll),
    /// Deletes all tasks of a queue in one state but active
    ///
    /// Asks first, unless --yes is given.
    ///
    /// With --json: an object with `queue`, `state`, `group`, `changed`, `ghosts`, `left`, `beyond_archive_limit`,
    /// `stopped`.
    #[command(name = "delete-all", alias = "deleteall")]
    DeleteAll(many::All),
    /// Enqueues a task of any program
    ///
    /// The types of a program are not known here: whether its job takes the payload is seen when it runs. A program's
    /// own `enqueue` command checks it. With --json: the object of the task, as in `task ls --json`.
    Enqueue(enqueue::Enqueue),
    /// Replaces the payload of a task that waits or is archived
    ///
    /// Asks first, unless --yes is given: the old payload is gone. A unique lock that was made of the whole payload
    /// follows it. JSON for a task of a job with the default codec is written by the shape that the broker keeps of its
    /// arguments, and refused where it does not fit. Bytes that begin as the old ones do are taken as they are, and so
    /// are any with --raw.
    ///
    /// With --json: an object with `id`, `queue`, `bytes` (of the new payload).
    Edit(edit::Edit),
}

impl Task {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        match self {
            Self::Ls(command) => command.run(session).await,
            Self::Inspect(command) => command.run(session).await,
            Self::Cancel(command) => command.run(session).await,
            Self::Run(tasks) => tasks.run(session).await,
            Self::Archive(command) => command.run(session).await,
            Self::Delete(tasks) => tasks.delete(session).await,
            Self::Move(command) => command.run(session).await,
            Self::RunAll(all) => all.run(session).await,
            Self::ArchiveAll(command) => command.run(session).await,
            Self::DeleteAll(all) => all.delete(session).await,
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
pub(crate) struct TheTasks {
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
    /// Returns the ids in their order, each once.
    fn ids(&self) -> Vec<&String> {
        once(self.tasks.iter().chain(&self.id))
    }

    /// Returns `task t1 of queue default`, or `3 tasks of queue default`.
    fn named(&self) -> String {
        let ids = self.ids();
        let subject = if let [id] = *ids { format!("task {id}") } else { tasks(ids.len() as u64) };
        format!("{subject} of queue {}", self.queue)
    }
}
