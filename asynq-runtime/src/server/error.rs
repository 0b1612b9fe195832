//! Why a server cannot be built, started or kept running.

use std::{error::Error, fmt, ops::Deref, sync::Arc};

use crate::{
    broker::BrokerError,
    job::{BoxError, RegistryError},
    task::InvalidName,
};

/// A server that cannot be built or started, or that had to stop. No text carries a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The jobs cannot be served: none, two of one name, or a state is missing.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The broker cannot be used or does not answer.
    #[error("the broker cannot be used: {0}")]
    Broker(#[from] BrokerError),
    /// A queue's name breaks a rule.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// An option has a value that cannot be.
    #[error("invalid option `{option}`: {reason}")]
    Option {
        /// Which one.
        option: &'static str,
        /// What to write instead.
        reason: String,
    },
    /// A service beside the jobs failed.
    #[error("service `{name}` failed: {source}")]
    Service {
        /// Which one.
        name: &'static str,
        /// Its error.
        source: SharedError,
    },
    /// A hook of the program failed.
    #[error("the hook `{name}` failed: {source}")]
    Hook {
        /// Which one.
        name: &'static str,
        /// Its error.
        source: BoxError,
    },
    /// The operating system refused the server's own thread.
    #[error("the server's I/O thread cannot be started: {0}")]
    Thread(#[source] std::io::Error),
    /// As many blocking jobs as the server has slots were given up (`kill_after`), and their threads have not returned. The
    /// process should end, and its supervisor start another one.
    #[error("{threads} blocking jobs were given up and their threads have not returned; start this program again")]
    Stuck {
        /// How many.
        threads: usize,
    },
    /// `start` was called outside a tokio runtime, so there is nowhere to run jobs.
    #[error("jobs need a tokio runtime: call `start` or `run` inside one, such as `#[tokio::main]`")]
    NoRuntime,
    /// The server's own thread ended, which only happens while the program ends.
    #[error("the server's I/O thread has ended")]
    Gone,
}

/// The error of a service, which every call that tells of it shares. It reads and is downcast as that error itself.
#[derive(Debug, Clone)]
pub struct SharedError(Arc<dyn Error + Send + Sync>);

// It does not implement `Error`: it would be the source of a `ServerError` then, in place of what the service returned.
impl Deref for SharedError {
    type Target = dyn Error + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<BoxError> for SharedError {
    fn from(error: BoxError) -> Self {
        Self(error.into())
    }
}

impl ServerError {
    pub(super) fn option(option: &'static str, reason: impl ToString) -> Self {
        Self::Option { option, reason: reason.to_string() }
    }
}
