//! `task cancel`: asks the server that runs a task to end it.

use asynq_runtime::{
    Client, TaskState,
    task::{QueueName, TaskId},
};
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
                let (active, mut ended) = runs(&client, id).await?;
                let mut is_asked = false;
                for queue in active {
                    if inspector.cancel_in(&queue, id).await? {
                        ended.push(queue);
                    } else {
                        is_asked = true;
                    }
                }
                let queues: Vec<&str> = ended.iter().map(|queue| queue.as_str()).collect();
                let (task, there) = (clean(id), clean(&queues.join(", ")));
                let text = match (is_asked, queues.is_empty()) {
                    (true, true) => format!("the worker of task {task} was asked to cancel it\n"),
                    (true, false) => format!(
                        "the worker of task {task} was asked to cancel it; no worker ran it in {there}: it was ended there\n"
                    ),
                    (false, _) => format!("no worker ran task {task} in {there}: it was ended there\n"),
                };
                Ok((json!({ "ended_in": queues }), text))
            })
            .await
    }
}

/// Returns the queues in which a task of this id runs, and those in which one that cannot be read was ended. Fails if there is none: a
/// request for another task would reach no server and look like a success.
async fn runs(client: &Client, id: &str) -> Result<(Vec<QueueName>, Vec<QueueName>), CliError> {
    let (broker, inspector, task) = (client.broker(), client.inspector(), TaskId::from_wire(id));
    let (mut active, mut waits, mut unread) = (Vec::new(), None, None);
    for queue in inspector.queues_of(id).await? {
        match broker.task(&queue, &task).await {
            Ok(Some(found)) if found.state == TaskState::Active => active.push(queue),
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
    if !active.is_empty() {
        // A request reaches the servers of all queues, also where another queue cannot be read.
        return Ok((active, Vec::new()));
    }
    match (waits, unread) {
        (Some(waits), _) => Err(CliError::NotFound(waits)),
        (None, Some(error)) => Err(error.into()),
        // A task whose message cannot be read looks as if it were not there.
        (None, None) => match inspector.cancel(id).await? {
            ended if ended.is_empty() => Err(CliError::NotFound(format!("there is no task `{id}` in any queue"))),
            ended => Ok((Vec::new(), ended)),
        },
    }
}
