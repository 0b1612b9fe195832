//! `web`: serves the dashboard.

use std::path::{Path, PathBuf};

use asynq_dashboard::{Dashboard, MAX_PASSWORD_BYTES};
use clap::Args;
use serde_json::json;

use crate::{error::CliError, session::Session};

#[derive(Debug, Args)]
pub(crate) struct Web {
    /// Where to listen; a port alone is one of this machine
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    listen: String,
    /// Shows everything and refuses every change
    #[arg(long)]
    read_only: bool,
    /// A name, beside those of this machine, by which browsers may ask; may be repeated
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// The title above every page
    #[arg(long)]
    title: Option<String>,
    /// The file that holds the argon2 hash of the password
    #[arg(long, value_name = "FILE")]
    password_hash_file: Option<PathBuf>,
    /// The file that holds the bearer token for programs, of at least 16 characters, 8 of them different
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl Web {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let client = session.client().await?;
        let dashboard = self.configure(Dashboard::new(&client).from_env()?)?;
        let bound = dashboard.bind(&self.listen).await?;
        let url = bound.url();
        session.answer(&json!({ "url": url }), |_| format!("dashboard at {url}; Ctrl+C ends it\n"))?;
        tokio::select! {
            () = bound.serve_until(session.stop()) => Ok(()),
            // No page can show anything any more, until what starts it anew opens the file that is there now.
            error = client.broker().broken() => Err(error.into()),
        }
    }

    /// Applies the flags, which override the environment.
    fn configure(&self, mut dashboard: Dashboard) -> Result<Dashboard, CliError> {
        if self.read_only {
            dashboard = dashboard.read_only(true);
        }
        if let Some(title) = &self.title {
            dashboard = dashboard.title(title);
        }
        if let Some(file) = &self.password_hash_file {
            dashboard = dashboard.password_hash(secret(file)?);
        }
        if let Some(file) = &self.token_file {
            dashboard = dashboard.bearer_token(secret(file)?);
        }
        Ok(self.allow_host.iter().fold(dashboard, Dashboard::allow_host).host_flag("--allow-host"))
    }
}

pub(super) async fn hash_password(session: &mut Session) -> Result<(), CliError> {
    let password = session.read_secret("Password: ", MAX_PASSWORD_BYTES).await?;
    let hash = asynq_dashboard::hash_password(&password)
        .map_err(|error| CliError::Usage(format!("the password cannot be hashed: {error}")))?;
    session.answer(&json!({ "hash": hash }), |_| format!("{hash}\n"))
}

/// Returns the text of a file without white space around it.
fn secret(file: &Path) -> Result<String, CliError> {
    let text = std::fs::read_to_string(file).map_err(CliError::system(format!("cannot read {}", file.display())))?;
    Ok(text.trim().to_owned())
}
