//! `task run`, `archive`, `delete`, `move`: one task, or some by their ids.

use asynq_runtime::{Inspector, TaskState};
use clap::Args;
use serde_json::json;

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
}

impl TheTasks {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        each(session, &self, "run", None, "is pending", async |inspector, queue, id| {
            Ok(inspector.run(queue, id).await?)
        })
        .await
    }

    pub(super) async fn delete(self, session: &mut Session) -> Result<(), CliError> {
        if let Err(error) = session.confirm(&format!("Delete {}?", self.named())) {
            return refused(session, &self, error);
        }
        each(session, &self, "deleted", None, "is deleted", async |inspector, queue, id| {
            Ok(inspector.delete(queue, id).await?)
        })
        .await
    }
}

impl Archive {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let (inspector, queue) = (session.inspector().await?, &self.tasks.queue);
        let ids = self.tasks.ids();
        // If the archive cannot be read, the result of each task reports the error.
        if let Ok(room) = inspector.archive_room(queue).await
            && room.beyond(ids.len() as u64) > 0
        {
            let mut archived = 0;
            for id in ids {
                let is_there = inspector.task(queue, id).await.is_ok_and(|task| task.state != TaskState::Archived);
                archived += u64::from(is_there);
            }
            if archived > 0 && room.beyond(archived) > 0 {
                let question = format!("Archive {}?", self.tasks.named());
                if let Err(error) = confirm_beyond_archive(session, &question, room, archived, self.beyond_archive) {
                    return refused(session, &self.tasks, error);
                }
            }
        }
        each(session, &self.tasks, "archived", None, "is archived", async |inspector, queue, id| {
            Ok(inspector.archive(queue, id).await?)
        })
        .await
    }
}

impl Move {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let text = format!("is in queue {}", self.to);
        each(session, &self.tasks, "moved", Some(&self.to), &text, async |inspector, queue, id| {
            Ok(inspector.move_to(queue, id, &self.to).await?)
        })
        .await
    }
}

/// Reports that none of the tasks was changed, because the user did not confirm it.
fn refused(session: &mut Session, tasks: &TheTasks, error: CliError) -> Result<(), CliError> {
    Several::changing("id").refuse(session, tasks.ids().into_iter().map(String::as_str), &error)?;
    Err(error)
}

/// Runs `act` on each task, and reports the results.
async fn each(
    session: &mut Session,
    tasks: &TheTasks,
    done: &str,
    to: Option<&str>,
    text: &str,
    act: impl AsyncFn(&Inspector, &str, &str) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let inspector = session.inspector().await?;
    Several::changing("id")
        .each(session, tasks.ids(), async |id| {
            act(&inspector, &tasks.queue, id).await?;
            let fields = match to {
                Some(to) => json!({ "queue": tasks.queue, "done": done, "to": to }),
                None => json!({ "queue": tasks.queue, "done": done }),
            };
            Ok((fields, format!("task {} {}\n", clean(id), clean(text))))
        })
        .await
}
