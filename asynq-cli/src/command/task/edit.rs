//! `task edit`: another payload for a task.

use clap::Args;
use serde_json::{Value, json};

use super::{
    TheTask,
    bytes::{Limits, Source},
};
use crate::{error::CliError, session::Session, show::clean};

#[derive(Debug, Args)]
pub(crate) struct Edit {
    #[command(flatten)]
    task: TheTask,
    #[command(flatten)]
    payload: Source,
    #[command(flatten)]
    limits: Limits,
}

impl Edit {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let payload = self.payload.read(&self.limits, session)?;
        let (queue, id) = (&self.task.queue, self.task.id());
        let inspector = session.inspector().await?.payload_limit(self.limits.payload_limit);
        let task = inspector.task(queue, id).await?;
        let reader = inspector.argument_reader([(&*task.r#type, &task.payload[..])]).await;
        // Where the shape is known, JSON is arguments: no payload of the default codec is JSON.
        let has_shape = !self.limits.raw && reader.read(&task.r#type, None, &task.payload).is_some();
        let arguments: Option<Value> = serde_json::from_slice(&payload).ok().filter(|_| has_shape);
        let (old, new) = (task.payload.len(), payload.len());
        session.confirm(&match &arguments {
            Some(_) => format!("Replace the arguments of task {id} of queue {queue}?"),
            None => format!("Replace the payload of task {id} of queue {queue}, {old} bytes, by {new} bytes?"),
        })?;
        let new = match arguments {
            Some(arguments) => inspector.edit_arguments(queue, id, &arguments).await?.len(),
            None if self.limits.raw => inspector.edit_raw(queue, id, payload).await.map(|()| new)?,
            None => inspector.edit_raw_in_shape(queue, id, payload).await.map(|()| new)?,
        };
        session.answer(&json!({ "id": id, "queue": queue, "bytes": new }), |_| {
            format!("task {} has its new payload of {new} bytes\n", clean(id))
        })
    }
}
