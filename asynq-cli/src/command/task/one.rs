//! `task run`, `archive`, `delete`, `move`: one task, or some by their ids.

use asynq_runtime::{Inspector, TaskState, inspector::InspectError, task::TaskInfo};
use clap::Args;
use serde_json::{Value, json};

use super::{super::several::Several, TheTasks, many::confirm_beyond_archive};
use crate::{error::CliError, session::Session, show::clean};

#[derive(Debug, Args)]
pub(crate) struct Archive {
    #[command(flatten)]
    tasks: TheTasks,
    /// Also where the archive cannot keep all: its oldest tasks are DELETED
    #[arg(long)]
    beyond_archive: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Move {
    #[command(flatten)]
    tasks: TheTasks,
    /// The other queue; it need not exist yet
    #[arg(long, value_name = "QUEUE")]
    to: String,
    /// Also where its archive cannot keep all: the oldest tasks in it are DELETED
    #[arg(long)]
    beyond_archive: bool,
}

impl TheTasks {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        each(session, &self, json!({ "done": "run" }), "is pending", async |inspector, queue, id| {
            inspector.run(queue, id).await
        })
        .await
    }

    pub(super) async fn delete(self, session: &mut Session) -> Result<(), CliError> {
        if let Err(error) = session.confirm(&format!("Delete {}?", self.named())) {
            return refused(session, &self, error);
        }
        each(session, &self, json!({ "done": "deleted" }), "is deleted", async |inspector, queue, id| {
            inspector.delete(queue, id).await
        })
        .await
    }
}

impl Archive {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let question = format!("Archive {}?", self.tasks.named());
        // A task that is archived in its place is counted already.
        let is_new = |task: &TaskInfo| task.state != TaskState::Archived || task.archived_at.is_none();
        confirm_room(session, &self.tasks, &self.tasks.queue, &question, is_new, self.beyond_archive).await?;
        each(session, &self.tasks, json!({ "done": "archived" }), "is archived", async |inspector, queue, id| {
            inspector.archive(queue, id).await
        })
        .await
    }
}

impl Move {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        if self.to != self.tasks.queue {
            let question = format!("Move {} to queue {}?", self.tasks.named(), self.to);
            let is_new = |task: &TaskInfo| task.state == TaskState::Archived;
            confirm_room(session, &self.tasks, &self.to, &question, is_new, self.beyond_archive).await?;
        }
        let (done, text) = (json!({ "done": "moved", "to": self.to }), format!("is in queue {}", self.to));
        each(session, &self.tasks, done, &text, async |inspector, queue, id| {
            inspector.move_to(queue, id, &self.to).await
        })
        .await
    }
}

/// Asks before so many of the tasks come into the archive of `queue` that it cannot keep all; those that `is_new` says do.
async fn confirm_room(
    session: &mut Session,
    tasks: &TheTasks,
    queue: &str,
    question: &str,
    is_new: impl Fn(&TaskInfo) -> bool,
    is_allowed: bool,
) -> Result<(), CliError> {
    let inspector = session.inspector().await?;
    let ids = tasks.ids();
    // If the archive cannot be read, the result of each task reports the error.
    if let Ok(room) = inspector.archive_room(queue).await
        && room.beyond(ids.len() as u64) > 0
    {
        let mut archived = 0;
        for id in ids {
            archived += u64::from(inspector.task(&tasks.queue, id).await.is_ok_and(|task| is_new(&task)));
        }
        if archived > 0
            && room.beyond(archived) > 0
            && let Err(error) = confirm_beyond_archive(session, question, room, archived, is_allowed)
        {
            return refused(session, tasks, error);
        }
    }
    Ok(())
}

/// Reports that none of the tasks was changed, because the user did not confirm it.
fn refused(session: &mut Session, tasks: &TheTasks, error: CliError) -> Result<(), CliError> {
    Several::changing("id").refuse(session, tasks.ids().into_iter().map(String::as_str), error)
}

/// Runs `act` on each task, and reports the results: what was `done` and the queue for a program, `text` for people.
async fn each(
    session: &mut Session,
    tasks: &TheTasks,
    mut done: Value,
    text: &str,
    act: impl AsyncFn(&Inspector, &str, &str) -> Result<(), InspectError>,
) -> Result<(), CliError> {
    let inspector = session.inspector().await?;
    done["queue"] = json!(tasks.queue);
    Several::changing("id")
        .each(session, tasks.ids(), async |id| {
            act(&inspector, &tasks.queue, id).await?;
            Ok((done.clone(), format!("task {} {}\n", clean(id), clean(text))))
        })
        .await
}
