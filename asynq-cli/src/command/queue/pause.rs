//! `queue pause` and `queue resume`.

use asynq_runtime::{Inspector, inspector::InspectError};
use serde_json::json;

use super::{super::several::Several, Names};
use crate::{error::CliError, session::Session, show::clean};

impl Names {
    pub(super) async fn set(self, session: &mut Session, paused: bool) -> Result<(), CliError> {
        let inspector = session.inspector().await?;
        Several::changing("queue")
            .each(session, &self.queues, async |name| {
                let changed = if paused { pause(&inspector, name).await? } else { resume(&inspector, name).await? };
                let became = match (paused, changed) {
                    (true, true) => "is paused",
                    (true, false) => "was paused already",
                    (false, true) => "goes on",
                    (false, false) => "was not paused",
                };
                Ok((json!({ "paused": paused, "changed": changed }), format!("queue {} {became}\n", clean(name))))
            })
            .await
    }
}

/// Pauses a queue that exists: a mistyped name must not look like a pause.
async fn pause(inspector: &Inspector, name: &str) -> Result<bool, InspectError> {
    inspector.exists(name).await?;
    inspector.pause(name).await
}

/// Resumes a queue. A queue that was paused before its first task does not exist yet, and is resumed as well; one with tasks whose name
/// was deleted exists again.
async fn resume(inspector: &Inspector, name: &str) -> Result<bool, InspectError> {
    let changed = inspector.resume(name).await?;
    if !changed {
        inspector.exists(name).await?;
    }
    Ok(changed)
}
