//! A payload that is given on the command line, in a file or on standard input.

use std::path::PathBuf;

use asynq_runtime::Client;
use clap::{Args, builder::RangedU64ValueParser};

use crate::{
    error::CliError,
    session::{Session, read_beyond},
};

/// Where a payload comes from.
#[derive(Debug, Args)]
#[group(id = "payloads", required = true, multiple = false)]
pub(super) struct Source {
    /// The payload as JSON, such as '{"to":"a@b.c"}'
    #[arg(short = 'l', long, value_name = "JSON")]
    payload: Option<String>,
    /// A file whose bytes are the payload, of any format; - reads standard input
    #[arg(long, value_name = "FILE")]
    payload_file: Option<PathBuf>,
}

/// Exceptions from the usual checks of a payload.
#[derive(Debug, Args)]
pub(super) struct Limits {
    /// Takes the payload as it is: a --payload that is not JSON; for edit also one that the task's job cannot read
    #[arg(long)]
    pub(super) raw: bool,
    /// The largest payload, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Client::DEFAULT_PAYLOAD_LIMIT,
          value_parser = RangedU64ValueParser::<usize>::new().range(0..=Client::MAX_PAYLOAD_LIMIT as u64))]
    pub(super) payload_limit: usize,
}

impl Source {
    /// Returns the payload. A text must be JSON unless `--raw` is given: a typing error would otherwise fail only when the task
    /// runs.
    pub(super) fn read(self, limits: &Limits, session: &mut Session) -> Result<Vec<u8>, CliError> {
        let bytes = match (self.payload, self.payload_file) {
            (Some(text), _) => {
                if !limits.raw
                    && let Err(error) = serde_json::from_str::<serde_json::Value>(&text)
                {
                    return Err(CliError::Usage(format!(
                        "--payload is not JSON ({error}); write it as JSON, or add --raw to send the text as it is"
                    )));
                }
                text.into_bytes()
            }
            (None, Some(file)) if file.as_os_str() == "-" => session.read_input(limits.payload_limit)?,
            (None, Some(file)) => std::fs::File::open(&file)
                .and_then(|opened| read_beyond(limits.payload_limit, opened))
                .map_err(CliError::system(format!("cannot read {}", file.display())))?,
            (None, None) => Vec::new(),
        };
        if bytes.len() > limits.payload_limit {
            return Err(CliError::Usage(format!(
                "the payload has more than {} bytes; raise --payload-limit if that is meant",
                limits.payload_limit
            )));
        }
        Ok(bytes)
    }
}
