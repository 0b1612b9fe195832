//! The options and commands that the command line accepts.

use clap::Parser;

use super::Command;
use crate::{error::EXIT_CODES, session::Options};

/// Looks at the queues of an asynq broker, repairs tasks, and serves the dashboard
///
/// The broker is named by --url or ASYNQ_URL; Redis and SQLite are treated alike. Commands and options of Go's
/// asynq tool are understood too.
#[derive(Debug, Parser)]
#[command(
    name = "asynq",
    version = concat!("version ", env!("CARGO_PKG_VERSION")),
    after_help = EXIT_CODES,
    max_term_width = 100,
    disable_version_flag = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) options: Options,
    /// Shows the version
    #[arg(short = 'V', short_alias = 'v', long, action = clap::ArgAction::Version)]
    version: (),
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// The lines that users of Go's tool have in their scripts.
    #[test]
    fn every_spelling_of_gos_tool_is_understood() {
        for line in [
            "stats --json",
            "queue list",
            "queue ls",
            "queue inspect a b",
            "queue history a b -x 3",
            "queue history a --days 3",
            "queue pause a b",
            "queue resume a",
            "queue unpause a",
            "queue remove a b -f",
            "queue rm a --force",
            "queue delete a",
            "task list -q a -s pending",
            "task ls --queue a --state aggregating --group g --page 2 --size 10",
            "task list -q a -s aggregating -g g",
            "task inspect -q a -i x",
            "task inspect --queue a --id x",
            "task cancel x y",
            "task archive -q a -i x",
            "task delete -q a -i x",
            "task remove -q a -i x",
            "task rm -q a -i x",
            "task run -q a -i x",
            "task archiveall -q a -s pending",
            "task deleteall -q a -s completed",
            "task runall -q a -s aggregating -g g",
            "task enqueue -t mail -l {}",
            "task enqueue --type_name mail --payload {} --retry 3 --queue a --id x --timeout 30s --unique 1h \
             --process_in 10m --retention 2h --group g",
            "task enqueue --type_name mail --payload {} --deadline 2030-01-02T03:04:05Z --process_at 2030-01-02T03:04:05Z",
            "server list",
            "server ls",
            "cron list",
            "cron ls",
            "cron history x y --page 2 --size 5",
            "group list -q a",
            "group ls --queue a",
            "version",
            "-u h:1 -n 2 -p x -U y stats",
            "stats --uri h:1 --db 2 --password x --username y --tls",
            "--cluster --cluster_addrs a:1,b:2 stats",
            "--tls_server x --insecure --config y stats",
        ] {
            let words = std::iter::once("asynq").chain(line.split_whitespace());
            if let Err(error) = Cli::try_parse_from(words) {
                panic!("{line}: {error}");
            }
        }
        for line in ["--version", "-V"] {
            let output = Cli::try_parse_from(["asynq", line]).unwrap_err().to_string();
            assert_eq!(output, format!("asynq version {}\n", env!("CARGO_PKG_VERSION")));
        }
    }

    #[test]
    fn every_command_and_option_states_its_purpose() {
        fn check(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            assert!(command.get_about().is_some_and(|about| !about.to_string().is_empty()), "{path}");
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                assert!(arg.get_help().is_some(), "{path} {}", arg.get_id());
            }
            command.get_subcommands().for_each(|below| check(below, &path));
        }
        check(&Cli::command(), "");
    }
}
