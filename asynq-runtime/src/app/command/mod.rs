//! The commands of a program: work, list its jobs, enqueue, count.

mod enqueue;
mod jobs;
mod lock;
mod stats;
mod worker;

use std::{fmt, io::Write as _};

pub(super) use self::{
    enqueue::enqueue,
    jobs::jobs,
    lock::{check, lock},
    stats::stats,
    worker::worker,
};
use super::{env::Settings, error::AppError};
use crate::{client::Client, connect::DEFAULT_URL};

/// Returns a client of the broker that the settings name. The set-up is not run.
async fn client(settings: Settings) -> Result<Client, AppError> {
    Ok(Client::connect(settings.url.as_deref().unwrap_or(DEFAULT_URL)).await?)
}

/// Writes to standard output.
fn print(text: impl fmt::Display) -> Result<(), AppError> {
    let written = std::io::stdout().write_all(text.to_string().as_bytes());
    match written {
        // `prog jobs | head` is not a failure.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(AppError::System { what: "cannot write the answer", source: error })
        }
        _ => Ok(()),
    }
}

fn print_json(value: &serde_json::Value) -> Result<(), AppError> {
    print(format_args!("{value:#}\n"))
}
