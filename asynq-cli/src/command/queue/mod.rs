//! `queue`: one module per verb.

mod history;
mod inspect;
mod ls;
mod pause;
mod rm;

use clap::{Args, Subcommand};

use crate::{error::CliError, session::Session};

/// Looks at queues, pauses and deletes them
#[derive(Debug, Subcommand)]
pub(crate) enum Queue {
    /// Lists the queues by name
    ///
    /// With --json: an array of the objects that `stats --json` has for each queue; one that cannot be read has `queue`
    /// and `error`.
    #[command(name = "ls", alias = "list")]
    Ls(ls::Ls),
    /// Shows the numbers of queues
    ///
    /// With --json: an array of the objects of `stats --json`, with `memory_bytes`, `groups` (how many) and `error`.
    Inspect(Names),
    /// Shows how many tasks were processed each day
    ///
    /// With --json: an array of objects with `queue`, `days` (`date`, `processed`, `failed`; today first) and `error`.
    History(history::History),
    /// Stops servers from taking tasks of queues; tasks that run go on
    ///
    /// With --json: an array of objects with `queue`, `paused`, `changed` and `error`.
    Pause(Names),
    /// Lets servers take tasks of queues again
    ///
    /// On Redis a queue that has tasks and is missing from the list of queues, as after a deletion by Go's tools, is listed again.
    ///
    /// With --json: an array of objects with `queue`, `paused`, `changed` and `error`.
    #[command(alias = "unpause")]
    Resume(Names),
    /// Deletes queues with their counters
    ///
    /// Asks first, unless --yes is given. A queue with tasks is refused without --force. With --json: an array of objects with
    /// `queue`, `tasks` (deleted with it) and `error`.
    #[command(name = "rm", aliases = ["remove", "delete"])]
    Rm(rm::Rm),
}

/// Some queues.
#[derive(Debug, Args)]
pub(crate) struct Names {
    /// The queues
    #[arg(required = true, value_name = "QUEUE")]
    queues: Vec<String>,
}

impl Queue {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        match self {
            Self::Ls(command) => command.run(session).await,
            Self::Inspect(names) => inspect::run(&names, session).await,
            Self::History(command) => command.run(session).await,
            Self::Pause(names) => names.set(session, true).await,
            Self::Resume(names) => names.set(session, false).await,
            Self::Rm(command) => command.run(session).await,
        }
    }
}
