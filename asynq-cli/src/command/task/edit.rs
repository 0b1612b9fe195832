//! `task edit`: another payload for a task.

use clap::Args;
use serde_json::json;

use super::{
    TheTask,
    bytes::{Limits, Source},
};
use crate::{error::CliError, session::Session, show::clean};

/// Asks first, unless --yes is given: the old payload is gone. A unique lock that was made of the whole payload follows it.
/// A task of a job with the default codec is refused, unless --raw is given or the new bytes begin as the old ones do: only
/// its own program can write such arguments
///
/// With --json: an object with `id`, `queue`, `bytes` (of the new payload).
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
        let old = inspector.task(queue, id).await?.payload.len();
        let new = payload.len();
        session.confirm(&format!("Replace the payload of task {id} of queue {queue}, {old} bytes, by {new} bytes?"))?;
        match self.limits.raw {
            true => inspector.edit_raw(queue, id, payload).await?,
            false => inspector.edit_raw_in_shape(queue, id, payload).await?,
        }
        session.answer(&json!({ "id": id, "queue": queue, "bytes": new }), |_| {
            format!("task {} has its new payload of {new} bytes\n", clean(id))
        })
    }
}
