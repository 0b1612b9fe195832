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
use super::{env::Settings, error::AppError, terminal::escaped};
use crate::{
    client::Client,
    connect::{DEFAULT_URL, missing_file},
};

/// Returns a client to enqueue with. A set-up is not run: where it may name another broker and nothing else does, a new file would
/// take tasks that no worker looks for.
async fn producer(settings: &Settings, has_set_up: bool) -> Result<Client, AppError> {
    if has_set_up && settings.url.is_none() && missing_file(DEFAULT_URL).is_some() {
        let reason = format!(
            "the set-up of this program may name a broker, and is not run here; start the worker once if it uses {DEFAULT_URL}, \
             or say --url {DEFAULT_URL}"
        );
        return Err(AppError::setting("--url", reason));
    }
    Ok(Client::connect(settings.url.as_deref().unwrap_or(DEFAULT_URL)).await?)
}

/// Writes to standard output.
fn print(text: impl fmt::Display) -> Result<(), AppError> {
    match std::io::stdout().write_all(text.to_string().as_bytes()) {
        // `prog jobs | head` is not a failure.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(AppError::System { what: "cannot write the answer".to_owned(), source: error })
        }
        _ => Ok(()),
    }
}

fn print_json(value: &serde_json::Value) -> Result<(), AppError> {
    print(escaped(&format!("{value:#}\n")))
}
