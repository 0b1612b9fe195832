//! `queue pause` and `queue resume`.

use asynq_runtime::{Inspector, inspector::InspectError};
use clap::Args;
use serde_json::json;

use super::super::several::Several;
use crate::{error::CliError, session::Session, show::clean};

/// With --json: an array of objects with `queue`, `paused`, `changed` and `error`
#[derive(Debug, Args)]
pub(crate) struct Pause {
    /// The queues
    #[arg(required = true, value_name = "QUEUE")]
    queues: Vec<String>,
}

/// With --json: an array of objects with `queue`, `paused`, `changed` and `error`
#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// The queues
    #[arg(required = true, value_name = "QUEUE")]
    queues: Vec<String>,
}

impl Pause {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let inspector = session.inspector().await?;
        let mut answers = Several::of("queue");
        for name in &self.queues {
            let done = pause(&inspector, name).await.map(|changed| {
                let text =
                    format!("queue {} {}\n", clean(name), if changed { "is paused" } else { "was paused already" });
                (json!({ "paused": true, "changed": changed }), text)
            });
            answers.add(session, name, done.map_err(CliError::from))?;
        }
        answers.end(session)
    }
}

impl Resume {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let inspector = session.inspector().await?;
        let mut answers = Several::of("queue");
        for name in &self.queues {
            let done = resume(&inspector, name).await.map(|changed| {
                let text = format!("queue {} {}\n", clean(name), if changed { "goes on" } else { "was not paused" });
                (json!({ "paused": false, "changed": changed }), text)
            });
            answers.add(session, name, done.map_err(CliError::from))?;
        }
        answers.end(session)
    }
}

/// Pauses a queue that exists: a mistyped name must not look like a pause.
async fn pause(inspector: &Inspector, name: &str) -> Result<bool, InspectError> {
    inspector.exists(name).await?;
    inspector.pause(name).await
}

/// Resumes a queue. A queue that was paused before its first task does not exist yet, and is resumed as well.
async fn resume(inspector: &Inspector, name: &str) -> Result<bool, InspectError> {
    let changed = inspector.resume(name).await?;
    if !changed {
        inspector.exists(name).await?;
    }
    Ok(changed)
}
