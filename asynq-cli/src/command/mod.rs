//! The command line, and its commands, one module each.

mod cli;
mod completions;
mod cron;
mod dash;
mod deploy;
mod doctor;
mod group;
mod lock;
mod progress;
mod queue;
mod redis;
mod server;
mod several;
mod stats;
mod task;
mod version;
mod web;

use clap::Subcommand;

pub(crate) use self::cli::Cli;
use crate::{error::CliError, session::Session};

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Counts the tasks of every queue, and lists the workers
    Stats(stats::Stats),
    /// Looks at queues, pauses and deletes them
    #[command(subcommand)]
    Queue(queue::Queue),
    /// Looks at tasks and repairs them
    #[command(subcommand)]
    Task(task::Task),
    /// Looks at the servers that work
    #[command(subcommand)]
    Server(server::Server),
    /// Looks at periodic entries, runs and pauses them
    #[command(subcommand)]
    Cron(cron::Cron),
    /// Looks at the groups in which tasks wait to be aggregated
    #[command(subcommand)]
    Group(group::Group),
    /// Looks at the locks of unique tasks, and frees them
    #[command(subcommand)]
    Lock(lock::Lock),
    /// Compares a program with the tasks that wait
    #[command(subcommand)]
    Deploy(deploy::Deploy),
    /// Serves the dashboard
    Web(web::Web),
    /// Makes the hash of a password for the dashboard
    HashPassword(web::HashPassword),
    /// Shows everything on the whole terminal, live
    Dash(dash::Dash),
    /// Finds faults, and names their repairs
    Doctor(doctor::Doctor),
    /// Writes a script that completes commands in a shell
    Completions(completions::Completions),
    /// Shows the version
    Version(version::Version),
}

impl Command {
    pub(crate) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        match self {
            Self::Stats(command) => command.run(session).await,
            Self::Queue(command) => command.run(session).await,
            Self::Task(command) => command.run(session).await,
            Self::Server(command) => command.run(session).await,
            Self::Cron(command) => command.run(session).await,
            Self::Group(command) => command.run(session).await,
            Self::Lock(command) => command.run(session).await,
            Self::Deploy(command) => command.run(session).await,
            Self::Web(command) => command.run(session).await,
            Self::HashPassword(command) => command.run(session),
            Self::Dash(command) => command.run(session).await,
            Self::Doctor(command) => command.run(session).await,
            Self::Completions(command) => command.run(session),
            Self::Version(command) => command.run(session),
        }
    }
}
