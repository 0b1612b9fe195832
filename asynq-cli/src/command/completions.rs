//! `completions SHELL`: a script that completes commands.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Cli;
use crate::{error::CliError, session::Session};

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, session: &mut Session) -> Result<(), CliError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "asynq", &mut script);
        session.write(&String::from_utf8_lossy(&script))
    }
}
