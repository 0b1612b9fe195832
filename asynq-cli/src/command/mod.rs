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
    ///
    /// With --json: the object of `Statistics`, which `asynq_runtime::inspector` documents and a worker's `stats
    /// --json` is, with two more fields: `redis`, an array with `address`, `version`, `uptime_seconds`, `connections`,
    /// `memory_bytes`, `peak_memory_bytes` and, in a cluster, `cluster_state`, `cluster_known_nodes` and `cluster_size`
    /// of each node; and `slots`, in a cluster an array with `queue`, `slot` and `nodes` of each queue.
    Stats,
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
    ///
    /// The page of everything, at http://127.0.0.1:8080/ unless --listen says otherwise.
    ///
    /// Other machines reach it only where it has a login: a password or a token, by a file or by the variables
    /// ASYNQ_DASHBOARD_PASSWORD_HASH and ASYNQ_DASHBOARD_TOKEN, or a header of a trusted proxy by
    /// ASYNQ_DASHBOARD_TRUSTED_HEADER. They are not flags, because flags can be seen by others on this machine. `asynq
    /// hash-password` makes the hash. The other variables of a worker's dashboard count here, too. With --json: an
    /// object with `url` when it listens.
    Web(web::Web),
    /// Makes the hash of a password for the dashboard
    ///
    /// Reads the password, of at most 1024 bytes, from standard input, and writes the argon2 hash of it for
    /// --password-hash-file or ASYNQ_DASHBOARD_PASSWORD_HASH. With --json: an object with `hash`.
    HashPassword,
    /// Shows everything on the whole terminal, live
    ///
    /// Queues, tasks, servers and periodic entries; `?` lists the keys.
    Dash(dash::Dash),
    /// Finds faults, and names their repairs
    ///
    /// With --json: an object with `broker`, `complete` and the array `findings`, each with `severity` (error or
    /// warning), `check`, `subject`, `found`, `means` and `repair`.
    Doctor(doctor::Doctor),
    /// Writes a script that completes commands in a shell
    ///
    /// Such as: `asynq completions bash > /etc/bash_completion.d/asynq`.
    Completions(completions::Completions),
    /// Shows the version
    ///
    /// With --json: an object with `version`.
    Version,
}

impl Command {
    pub(crate) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        match self {
            Self::Stats => stats::run(session).await,
            Self::Queue(command) => command.run(session).await,
            Self::Task(command) => command.run(session).await,
            Self::Server(command) => command.run(session).await,
            Self::Cron(command) => command.run(session).await,
            Self::Group(command) => command.run(session).await,
            Self::Lock(command) => command.run(session).await,
            Self::Deploy(command) => command.run(session).await,
            Self::Web(command) => command.run(session).await,
            Self::HashPassword => web::hash_password(session).await,
            Self::Dash(command) => command.run(session).await,
            Self::Doctor(command) => command.run(session).await,
            Self::Completions(command) => command.run(session),
            Self::Version => version::run(session),
        }
    }
}
