//! Why a program's command did not do its work, in one line.

use std::error::Error;

use super::censor::without_passwords;
use crate::{
    broker::BrokerError,
    inspector::InspectError,
    job::{BoxError, EnqueueError, InvalidLock, RegistryError, chain},
    server::ServerError,
    task::InvalidName,
};

/// A worker that could not be set up or had to stop, or a command that was refused. No text carries a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppError {
    /// A flag, a variable or an argument that cannot be read.
    #[error("{what}: {reason}")]
    Setting {
        /// Which one, such as `--queues` or `ASYNQ_QUEUES`.
        what: &'static str,
        /// What to write instead.
        reason: String,
    },
    /// The jobs of this program cannot be served.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The program's own set-up function failed.
    #[error("the set-up of this program failed: {0}")]
    SetUp(#[source] BoxError),
    /// The server.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The broker.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// What should be shown cannot be.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// No job has this name.
    #[error("this program has no job `{name}`{hint}")]
    UnknownJob {
        /// What was asked for.
        name: String,
        /// What there is.
        hint: String,
    },
    /// Arguments that do not fit the job.
    #[error("`{job}` does not take these arguments: {reason}; it takes {shape}")]
    Arguments {
        /// The job.
        job: &'static str,
        /// What is wrong.
        reason: String,
        /// What to write.
        shape: String,
    },
    /// The task was refused.
    #[error(transparent)]
    Enqueue(#[from] EnqueueError),
    /// A name that cannot be.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// A `jobs.lock` that cannot be read.
    #[error(transparent)]
    Lock(#[from] InvalidLock),
    /// A deploy of this program would strand tasks, or its shapes are not locked.
    #[error("{found} of the shapes in {file} are unsafe")]
    UnsafeDeploy {
        /// How many.
        found: usize,
        /// The file.
        file: String,
    },
    /// The operating system.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What it says.
        source: std::io::Error,
    },
}

impl AppError {
    pub(super) fn setting(what: &'static str, reason: impl ToString) -> Self {
        Self::Setting { what, reason: reason.to_string() }
    }

    /// Its text with every cause that the text does not name already, on one line.
    #[cfg_attr(not(feature = "main"), allow(dead_code, reason = "only `main!` prints it"))]
    pub(super) fn line(&self) -> String {
        let mut line = self.to_string();
        for cause in chain(self.source()) {
            let text = cause.to_string();
            if !line.contains(&text) {
                line.push_str(": ");
                line.push_str(&text);
            }
        }
        without_passwords(&line.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}
