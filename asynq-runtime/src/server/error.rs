//! Why a server cannot be built, started or kept running.

use crate::{
    broker::BrokerError,
    job::{BoxError, RegistryError, SharedError},
    task::InvalidName,
};

/// Why a server cannot be built or started, or had to stop. No text carries a password.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The jobs cannot be served; [`RegistryError`] says why.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The broker cannot be used or does not answer.
    #[error("the broker cannot be used: {0}")]
    Broker(#[from] BrokerError),
    /// A queue's name breaks a rule.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The value of an option is not valid.
    #[error("invalid option `{option}`: {reason}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// Why the value is not valid, and how to correct it.
        reason: String,
    },
    /// A service beside the jobs failed.
    #[error("service `{name}` failed: {source}")]
    Service {
        /// Name of the service.
        name: &'static str,
        /// Error of the service.
        source: SharedError,
    },
    /// A hook of the program failed.
    #[error("the hook `{name}` failed: {source}")]
    Hook {
        /// Name of the hook.
        name: &'static str,
        /// Error of the hook.
        source: BoxError,
    },
    /// The operating system refused the server's own thread.
    #[error("the server's I/O thread cannot be started: {0}")]
    Thread(#[source] std::io::Error),
    /// As many blocking jobs as the server runs at a time were given up (`kill_after`), and their threads have not returned. The
    /// process should end, and its supervisor should start another one.
    #[error("{threads} blocking jobs were given up and their threads have not returned; start this program again")]
    Stuck {
        /// How many threads have not returned.
        threads: usize,
    },
    /// The server has left while the broker had not taken what these attempts ended with, most often in an outage. Their tasks run
    /// again, with one crash more: on SQLite at once, on Redis when their leases are over.
    #[error(
        "the broker has not taken {outcomes} outcomes; those tasks run again with one crash more, on Redis when their leases are over"
    )]
    Unsettled {
        /// How many outcomes the broker has not taken.
        outcomes: usize,
    },
    /// `start` was called outside a tokio runtime, so there is nowhere to run jobs, or in one without timers or I/O.
    #[error(
        "jobs need a tokio runtime with its timers and I/O: call `start` or `run` inside one, such as that of `#[tokio::main]`, or of \
         a `Builder` with `enable_all()`"
    )]
    NoRuntime,
    /// The tokio runtime that called `start` ended before the server had left, and all its jobs with it.
    #[error("the runtime that called `start` has ended, so no more jobs can run; use one that outlives the server")]
    RuntimeEnded,
    /// The server's own thread ended, which happens only while the program ends.
    #[error("the server's I/O thread has ended")]
    Gone,
}

debug_as_text!(ServerError);

impl ServerError {
    pub(super) fn option(option: &'static str, reason: impl ToString) -> Self {
        Self::Option { option, reason: reason.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::BrokerErrorKind;

    /// A `main` that returns an error prints its `Debug`.
    #[test]
    fn the_debug_of_an_error_is_its_text_with_its_causes() {
        let error = ServerError::from(RegistryError::NoJobs);
        assert_eq!(format!("{error:?}"), error.to_string());
        let error = BrokerError::with_source(BrokerErrorKind::Denied, "the login is refused", "WRONGPASS");
        assert_eq!(format!("{error:?}"), "the login is refused: WRONGPASS");
        assert_eq!(
            format!("{:?}", ServerError::from(error)),
            "the broker cannot be used: the login is refused: WRONGPASS"
        );
    }
}
