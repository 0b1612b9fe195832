//! `version`: which program this is.

use serde_json::json;

use crate::{error::CliError, session::Session};

pub(super) fn run(session: &mut Session) -> Result<(), CliError> {
    let version = env!("CARGO_PKG_VERSION");
    session.answer(&json!({ "version": version }), |_| format!("asynq version {version}\n"))
}
