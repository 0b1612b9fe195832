//! `queue`: one module per verb.

mod history;
mod inspect;
mod ls;
mod pause;
mod rm;

use clap::Subcommand;

use crate::{error::CliError, session::Session};

/// Looks at queues, pauses and deletes them
#[derive(Debug, Subcommand)]
pub(crate) enum Queue {
    /// Lists the queues by name
    #[command(name = "ls", alias = "list")]
    Ls(ls::Ls),
    /// Shows the numbers of queues
    Inspect(inspect::Inspect),
    /// Shows how many tasks were processed each day
    History(history::History),
    /// Stops servers from taking tasks of queues; tasks that run go on
    Pause(pause::Pause),
    /// Lets servers take tasks of queues again
    #[command(alias = "unpause")]
    Resume(pause::Resume),
    /// Deletes queues with their counters
    #[command(name = "rm", aliases = ["remove", "delete"])]
    Rm(rm::Rm),
}

impl Queue {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        match self {
            Self::Ls(command) => command.run(session).await,
            Self::Inspect(command) => command.run(session).await,
            Self::History(command) => command.run(session).await,
            Self::Pause(command) => command.run(session).await,
            Self::Resume(command) => command.run(session).await,
            Self::Rm(command) => command.run(session).await,
        }
    }
}
