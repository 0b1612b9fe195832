//! `version`: which program this is.

use clap::Args;
use serde_json::json;

use crate::{error::CliError, session::Session};

/// With --json: an object with `version`
#[derive(Debug, Args)]
pub(crate) struct Version {}

impl Version {
    pub(super) fn run(self, session: &mut Session) -> Result<(), CliError> {
        let version = env!("CARGO_PKG_VERSION");
        session.answer(&json!({ "version": version }), |_| format!("asynq version {version}\n"))
    }
}
