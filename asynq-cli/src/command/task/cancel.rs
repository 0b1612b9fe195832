//! `task cancel`: asks whoever runs a task to end it.

use clap::Args;
use serde_json::json;

use super::super::several::{Done, Several};
use crate::{error::CliError, session::Session, show::clean};

/// Whether somebody heard it is not known, as in asynq. A task that counts as running while nobody runs it is ended
///
/// With --json: an array of objects with `id`, `ended_in` (queues where nobody ran it and it was ended) and `error`.
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// Which, in all queues
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

impl Cancel {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let inspector = session.inspector().await?;
        let mut answers = Several::of("id");
        for id in &self.ids {
            let done = inspector.cancel(id).await.map(|ended| -> Done {
                let queues: Vec<&str> = ended.iter().map(|queue| queue.as_str()).collect();
                let and = match queues.as_slice() {
                    [] => String::new(),
                    queues => format!("; nobody ran it in {}: it was ended there", clean(&queues.join(", "))),
                };
                let text = format!("whoever runs task {} was asked to cancel it{and}\n", clean(id));
                (json!({ "ended_in": queues }), text)
            });
            answers.add(session, id, done.map_err(CliError::from))?;
        }
        answers.end(session)
    }
}
