//! `dash`: the live view.

use std::time::Duration;

use clap::Args;

use crate::{dash, error::CliError, session::Session};

#[derive(Debug, Args)]
pub(crate) struct Dash {
    /// How often the broker is asked: 2s, at least 500ms
    #[arg(long, value_name = "SPAN", default_value = "2s", value_parser = refresh)]
    refresh: Duration,
}

fn refresh(text: &str) -> Result<Duration, String> {
    match asynq_grammar::duration::parse(text) {
        Ok(span) if span >= Duration::from_millis(500) => Ok(span),
        Ok(_) => Err("it must be at least 500ms".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

impl Dash {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        if !session.is_on_a_terminal() {
            return Err(CliError::Usage("dash needs a terminal; for programs there is `asynq stats --json`".into()));
        }
        let client = session.client().await?;
        dash::run(&client, self.refresh, session).await
    }
}
