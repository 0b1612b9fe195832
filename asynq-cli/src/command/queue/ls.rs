//! `queue ls`: names, as other programs in a pipe want them.

use asynq_runtime::inspector::Statistics;
use clap::Args;

use super::super::stats::queue_table;
use crate::{error::CliError, session::Session, show::clean};

/// With --json: an array of the objects that `stats --json` has for each queue
#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Shows a table with what is in each queue instead of names alone
    #[arg(short, long)]
    long: bool,
}

impl Ls {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        if !self.long && !session.is_json() {
            // Names alone cost one call, however many queues there are.
            let names = session.client().await?.broker().queues().await?;
            if names.is_empty() {
                session.note("no queues yet: nothing was ever enqueued here");
            }
            let text: String = names.iter().map(|name| clean(name.as_str()) + "\n").collect();
            return session.write(&text);
        }
        let queues = session.inspector().await?.queues().await?;
        let value: Vec<_> = queues.iter().map(Statistics::queue_to_json).collect();
        session.answer(&value, |style| queue_table(&queues, style))
    }
}
