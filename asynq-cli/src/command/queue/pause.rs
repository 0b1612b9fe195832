//! `queue pause` and `queue resume`.

use clap::Args;
use serde_json::json;

use super::super::several::Several;
use crate::{error::CliError, session::Session, show::clean};

/// With --json: an array of objects with `queue`, `paused`, `changed` and `error`
#[derive(Debug, Args)]
pub(crate) struct Pause {
    /// Which; one that does not exist yet will be paused when it does
    #[arg(required = true, value_name = "QUEUE")]
    queues: Vec<String>,
}

/// With --json: an array of objects with `queue`, `paused`, `changed` and `error`
#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// Which
    #[arg(required = true, value_name = "QUEUE")]
    queues: Vec<String>,
}

impl Pause {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let inspector = session.inspector().await?;
        let mut answers = Several::of("queue");
        for name in &self.queues {
            let done = inspector.pause(name).await.map(|changed| {
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
            let done = inspector.resume(name).await.map(|changed| {
                let text = format!("queue {} {}\n", clean(name), if changed { "goes on" } else { "was not paused" });
                (json!({ "paused": false, "changed": changed }), text)
            });
            answers.add(session, name, done.map_err(CliError::from))?;
        }
        answers.end(session)
    }
}
