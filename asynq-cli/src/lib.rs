//! The command line `asynq`: looks at queues and repairs tasks, over Redis and SQLite alike.
//!
//! [`main`] is the whole program: it gives `run` the command line and the `Environment` of the process. The tests call `run` with
//! an environment of their own. `asynq --help` lists the commands, docs/cli.md explains them.
//!
//! # The parts
//!
//! - `broker_flags`: the flags that locate the broker, those of this tool and those of Go's tool.
//! - `environment`: the surroundings of a command: output, input, environment variables, the stop signal.
//! - `session`: the resources of a command: the broker, the output, the user to ask.
//! - `command`: the grammar in `cli`, and one module per command. A new command is a module with a `clap::Args` and a
//!   `run`, and a line in `Command`.
//! - `dash`: the full-screen view.
//! - `doctor`: the faults that a system can have, derived purely from gathered evidence.
//! - `entries`: periodic entries as schedulers list them.
//! - `error`: why a command did not do its work, and the exit code that says so.
//! - `log`: log lines, which the full-screen view keeps from its screen.
//! - `reading`: the tasks of one state, page by page up to a limit.
//! - `show`: tables for people, JSON for programs, and payloads that can do no harm to a terminal.
//! - `unlisted`: why queues, and programs that run, may be missing from lists.
//! - `without_echo`: a line that is typed without being shown.

mod broker_flags;
mod command;
mod dash;
mod doctor;
mod entries;
mod environment;
mod error;
mod log;
mod reading;
mod session;
mod show;
mod unlisted;
mod without_echo;

use std::{ffi::OsString, process::ExitCode};

use clap::Parser as _;

#[doc(hidden)]
pub use self::environment::{Environment, Input};
use self::{
    command::Cli,
    session::{Options, Session},
};

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    log::start();
    asynq_runtime::app::warn_of_misspelled_variables();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = match asynq_runtime::app::start_runtime(builder.worker_threads(2)) {
        Ok(runtime) => runtime,
        Err(error) => {
            let line = format_args!("error: the runtime cannot start: {error}\n");
            let _ = std::io::Write::write_fmt(&mut std::io::stderr(), line);
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(run(std::env::args_os(), Environment::of_this_process()));
    runtime.shutdown_background();
    ExitCode::from(code)
}

/// Runs one command line, its first word the program's name, and returns its exit code: 0 done, 1 refused or failed, 2 not
/// understood or no broker, 3 not confirmed, 130 stopped by Ctrl+C.
#[doc(hidden)]
pub async fn run(args: impl IntoIterator<Item = OsString>, environment: Environment) -> u8 {
    let Cli { options, command, .. } = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(usage) => {
            let mut session = Session::new(Options::default(), environment);
            let written = session.write_usage(&usage);
            return session.end(written).await;
        }
    };
    let mut session = Session::new(options, environment);
    // Boxed: the futures of all commands together nest deeper than the compiler follows.
    let ended = Box::pin(command.run(&mut session)).await;
    session.end(ended).await
}
