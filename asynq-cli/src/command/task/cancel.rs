//! `task cancel`: asks the server that runs a task to end it.

use asynq_runtime::{Client, TaskState, task::TaskId};
use clap::Args;
use serde_json::json;

use super::super::several::Several;
use crate::{error::CliError, session::Session, show::clean};

#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// Ids of tasks, in all queues
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

impl Cancel {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let client = session.client().await?;
        let inspector = client.inspector();
        Several::changing("id")
            .each(session, &self.ids, async |id| {
                runs(&client, id).await?;
                let ended = inspector.cancel(id).await?;
                let queues: Vec<&str> = ended.iter().map(|queue| queue.as_str()).collect();
                let and = match queues.as_slice() {
                    [] => String::new(),
                    queues => format!("; no worker ran it in {}: it was ended there", clean(&queues.join(", "))),
                };
                let text = format!("the worker of task {} was asked to cancel it{and}\n", clean(id));
                Ok((json!({ "ended_in": queues }), text))
            })
            .await
    }
}

/// Fails unless a task of this id runs in some queue: a request for another would reach no server and look like a success.
async fn runs(client: &Client, id: &str) -> Result<(), CliError> {
    if id.trim().is_empty() {
        // The inspector reports the error of an empty id.
        return Ok(());
    }
    let (broker, task) = (client.broker(), TaskId::from_wire(id));
    let (mut waits, mut unread) = (None, None);
    for queue in broker.queues().await? {
        match broker.task(&queue, &task).await {
            Ok(Some(found)) if found.state == TaskState::Active => return Ok(()),
            Ok(Some(found)) => {
                waits = Some(format!(
                    "task `{id}` in queue `{queue}` is in the state {}, not running; there is no run to cancel",
                    found.state
                ));
            }
            Ok(None) => {}
            Err(error) => unread = Some(error),
        }
    }
    match (waits, unread) {
        (Some(waits), _) => Err(CliError::NotFound(waits)),
        (None, Some(error)) => Err(error.into()),
        (None, None) => Err(CliError::NotFound(format!("there is no task `{id}` in any queue"))),
    }
}
