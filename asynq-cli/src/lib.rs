//! The command line `asynq`: looks at queues and repairs tasks, over Redis and SQLite alike.
//!
//! [`main`] is the whole program. [`run`] is the same for one command line whose surroundings are given, an [`Environment`]; that
//! is how the tests run it, inside their own process. `asynq --help` lists the commands, docs/cli.md explains them.
//!
//! # The parts
//!
//! - `broker_flags`: where the broker is, as our flags say it and as those of Go's tool do.
//! - `environment`: what surrounds a command: output, input, environment variables, the stop signal.
//! - `session`: what a command works with: the broker, the output, the person to ask.
//! - `command`: `cli`, what can be written, and one module per command. A new one is a module with a `clap::Args` and a
//!   `run`, and a line in `Command`.
//! - `dash`: the full-screen view.
//! - `doctor`: what can be wrong with a system, decided purely from what was gathered.
//! - `entries`: periodic entries as schedulers list them.
//! - `show`: tables for people, JSON for programs, and payloads that can do no harm to a terminal.

mod broker_flags;
mod command;
mod dash;
mod doctor;
mod entries;
mod environment;
mod error;
mod session;
mod show;

use std::{ffi::OsString, process::ExitCode};

use clap::Parser as _;

pub use self::environment::{Environment, Input};
use self::{command::Cli, session::Session};

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    environment::log();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("error: {error}\n"));
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(run(std::env::args_os(), Environment::of_this_process()));
    runtime.shutdown_background();
    ExitCode::from(code)
}

/// Runs one command line, its first word the program's name, and returns its exit code: 0 done, 1 refused or failed, 2 not
/// understood or no broker, 3 not confirmed, 130 stopped by Ctrl+C.
pub async fn run(args: impl IntoIterator<Item = OsString>, mut environment: Environment) -> u8 {
    let Cli { options, command, .. } = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(usage) => return environment.tell_usage(&usage),
    };
    let mut session = Session::new(options, environment);
    // Boxed: the futures of all commands together are deeper than the compiler looks into.
    let ended = Box::pin(command.run(&mut session)).await;
    session.end(ended).await
}
