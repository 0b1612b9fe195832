//! Why a command did not do its work, in one line, and the exit code that says so to programs.

use asynq_cron::PeriodicError;
use asynq_dashboard::DashboardError;
use asynq_runtime::{
    EnqueueError,
    app::{usage_without_passwords, without_passwords},
    broker::{BrokerError, BrokerErrorKind},
    inspector::InspectError,
    job::with_causes,
};

/// The text of `--help` about exit codes.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done; doctor: nothing found
  1    refused or failed: no such queue or task, a state that does not allow it; doctor: something found;
       deploy check: a shape that is not in the file, or not every task looked at
  2    not understood, or no broker: it is not there, cannot be opened, refuses the password or does not answer
  3    not confirmed: add --yes, or answer y
  130  stopped by Ctrl+C; completed changes stay and are listed";

/// A command that was refused, failed or stopped. No text carries a password.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// Arguments that are not valid; the text says what to write.
    #[error("{0}")]
    Usage(String),
    /// No user can be asked.
    #[error("{question} Standard input is not a terminal: add {flags} to do it without being asked")]
    Unasked { question: String, flags: &'static str },
    /// The user was asked and did not say yes.
    #[error("nothing was changed")]
    Declined,
    /// Stopped by a signal between two steps, with how far it came.
    #[error("{0}")]
    Stopped(String),
    /// A name that was not found, or that several have, where the inspector has no error for it.
    #[error("{0}")]
    NotFound(String),
    /// Parts failed and were reported already; the exit code of the worst.
    #[error("some of it failed")]
    Reported(u8),
    /// The broker cannot be opened, for whatever reason.
    #[error(transparent)]
    Open(BrokerError),
    /// The broker failed.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// The inspector failed or refused.
    #[error("{}", in_cli_terms(.0))]
    Inspect(#[from] InspectError),
    /// A task that was refused.
    #[error(transparent)]
    Enqueue(#[from] EnqueueError),
    /// A periodic entry that cannot run.
    #[error(transparent)]
    Periodic(#[from] PeriodicError),
    /// A dashboard that cannot be served.
    #[error("{}", in_flags(.0))]
    Dashboard(#[from] DashboardError),
    /// The operating system failed.
    #[error("{context}: {source}")]
    System { context: String, source: std::io::Error },
}

impl CliError {
    /// The exit code of a command that was refused or failed.
    pub(crate) const FAILED: u8 = 1;
    /// The exit code of a command that was not understood, or had no broker.
    pub(crate) const USAGE: u8 = 2;
    const UNCONFIRMED: u8 = 3;
    const STOPPED: u8 = 130;

    /// Returns the error of a call of the operating system, with the context in which it was made.
    pub(crate) fn system(context: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let context = context.into();
        |source| Self::System { context, source }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Open(_) => Self::USAGE,
            Self::Unasked { .. } | Self::Declined => Self::UNCONFIRMED,
            Self::Stopped(_) => Self::STOPPED,
            Self::Reported(code) => *code,
            Self::Dashboard(DashboardError::Bind { .. }) => Self::FAILED,
            Self::Dashboard(_) => Self::USAGE,
            _ if self.is_broker_gone() => Self::USAGE,
            _ => Self::FAILED,
        }
    }

    /// Returns whether the broker, or the part of it that was asked, is away or refuses this program, so that further calls may fail, too.
    pub(crate) fn is_broker_gone(&self) -> bool {
        let error = match self {
            Self::Broker(error) | Self::Inspect(InspectError::Broker(error)) => Some(error),
            Self::Inspect(InspectError::Interrupted { source, .. } | InspectError::UnreadableQueue { source, .. }) => {
                Some(source)
            }
            Self::Enqueue(EnqueueError::Broker(error)) => Some(error),
            Self::Periodic(error) => error.broker(),
            _ => None,
        };
        error.is_some_and(|error| {
            error.is_unavailable() || matches!(error.kind(), BrokerErrorKind::Denied | BrokerErrorKind::Config)
        })
    }

    /// Returns whether the reader of the output went away: `asynq task ls | head` is not a failure.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::System { source, .. } if source.kind() == std::io::ErrorKind::BrokenPipe)
    }

    /// Returns the outcome of a command whose answer was `written` before: a reader that went away changes no outcome, and any other
    /// error of the output comes first.
    pub(crate) fn unless_reader_left(written: Result<(), Self>, outcome: Result<(), Self>) -> Result<(), Self> {
        match written {
            Err(error) if !error.is_broken_pipe() => Err(error),
            _ => outcome,
        }
    }

    /// Returns the text of the error with every cause that the text does not name already, on one line.
    pub(crate) fn line(&self) -> String {
        // The texts of these two are in words of the command line; their causes repeat them in words of the library.
        let is_complete = matches!(self, Self::Inspect(_) | Self::Dashboard(DashboardError::NoLogin { .. }));
        let mut line = if is_complete { self.to_string() } else { with_causes(self) };
        if let Self::Enqueue(error) = self
            && error.is_ambiguous()
        {
            line.push_str("; a repeat may store the task a second time, unless both have the same --id");
        }
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        // An argument that the text quotes may be a URL in the wrong place. Where it is in place of an address, its scheme may be
        // missing; elsewhere such a text is the id of a task.
        if matches!(self, Self::Dashboard(_)) { usage_without_passwords(&line) } else { without_passwords(&line) }
    }
}

/// Returns the text of an error with flags instead of the library's methods.
fn in_cli_terms(error: &InspectError) -> String {
    match error {
        InspectError::QueueNotEmpty { queue, tasks } => {
            format!("queue `{queue}` still has tasks ({tasks}); add --force to delete them too")
        }
        InspectError::BeyondArchive { queue, limit, beyond } => format!(
            "the archive of queue `{queue}` keeps {limit} tasks: its {beyond} oldest would be deleted, so nothing was archived; \
             --beyond-archive allows it"
        ),
        InspectError::TooLarge { size, limit } => {
            format!("the payload would have {size} bytes, more than the limit of {limit}; raise --payload-limit")
        }
        InspectError::HeaderLost { id, job } => format!(
            "task `{id}` has a payload of the default codec (postcard), which only the program of `{job}` can write: other \
             bytes would be archived when a worker reads them; edit it on the dashboard of its worker, or add --raw to \
             replace it all the same"
        ),
        InspectError::NoShape { id, job, reason } => format!(
            "the shape of task `{id}` is not known ({reason}), so only the program of `{job}` can write its arguments: edit \
             it on the dashboard of its worker, or add --raw to replace its bytes all the same"
        ),
        other => other.to_string(),
    }
}

/// Returns the text of an error with flags and variables instead of the builder's methods.
fn in_flags(error: &DashboardError) -> String {
    match error {
        DashboardError::NoLogin { address } => format!(
            "the dashboard would be open to every client that reaches {address}: listen at 127.0.0.1, or give it a login: \
             --password-hash-file FILE (`asynq hash-password` makes one) or --token-file FILE, or \
             ASYNQ_DASHBOARD_PASSWORD_HASH, ASYNQ_DASHBOARD_TOKEN or ASYNQ_DASHBOARD_TRUSTED_HEADER"
        ),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use asynq_runtime::task::QueueName;

    use super::*;

    #[test]
    fn exit_codes_separate_the_kinds_of_failure() {
        let broker = |kind| CliError::from(BrokerError::new(kind, "x"));
        let queue = QueueName::from_wire("q");
        for (error, code) in [
            (CliError::Usage("x".into()), 2),
            (CliError::Unasked { question: "Really?".into(), flags: "--yes" }, 3),
            (CliError::Declined, 3),
            (CliError::Stopped("x".into()), 130),
            (CliError::Reported(1), 1),
            (broker(BrokerErrorKind::Unavailable), 2),
            (broker(BrokerErrorKind::Denied), 2),
            (broker(BrokerErrorKind::Config), 2),
            (broker(BrokerErrorKind::Corrupt), 1),
            (CliError::Open(BrokerError::new(BrokerErrorKind::Corrupt, "x")), 2),
            (InspectError::QueueNotFound { queue }.into(), 1),
            (InspectError::Broker(BrokerError::new(BrokerErrorKind::Timeout, "x")).into(), 2),
            (PeriodicError::from(EnqueueError::from(BrokerError::new(BrokerErrorKind::Timeout, "x"))).into(), 2),
            (PeriodicError::UnknownJob { job: "j".into() }.into(), 1),
        ] {
            assert_eq!(error.exit_code(), code, "{error:?}");
            assert!(EXIT_CODES.contains(&format!("\n  {code} ")), "{code} is documented");
        }
    }

    #[test]
    fn a_library_method_is_named_as_a_flag() {
        let error = InspectError::QueueNotEmpty { queue: QueueName::from_wire("q"), tasks: 3 };
        assert_eq!(CliError::from(error).line(), "queue `q` still has tasks (3); add --force to delete them too");
        let error = InspectError::BeyondArchive { queue: QueueName::from_wire("q"), limit: 10, beyond: 3 };
        assert!(CliError::from(error).line().ends_with("nothing was archived; --beyond-archive allows it"));
    }

    #[test]
    fn a_task_that_may_be_stored_is_not_repeated_blindly() {
        let line = |kind| CliError::from(EnqueueError::from(BrokerError::new(kind, "no answer"))).line();
        let expected = "no answer; a repeat may store the task a second time, unless both have the same --id";
        for kind in [BrokerErrorKind::Timeout, BrokerErrorKind::Unconfirmed] {
            assert_eq!(line(kind), expected);
        }
        assert_eq!(line(BrokerErrorKind::Full), "no answer", "nothing was stored");
    }

    #[test]
    fn a_dashboard_without_a_login_is_explained_in_flags() {
        let line = CliError::from(DashboardError::NoLogin { address: [0, 0, 0, 0].into() }).line();
        assert!(line.contains("--password-hash-file") && !line.contains(".password_hash("), "{line}");
    }

    #[test]
    fn causes_are_printed_once_and_on_one_line() {
        let inner = std::io::Error::other("refused\nby host");
        let error = BrokerError::with_source(BrokerErrorKind::Unavailable, "redis is not there", inner);
        assert_eq!(CliError::from(error).line(), "redis is not there: refused by host");
        let refused = BrokerError::with_source(BrokerErrorKind::Unexpected, "see the cause (ERR)", "max daily request");
        let of_queue = InspectError::UnreadableQueue { queue: QueueName::from_wire("q"), source: refused.clone() };
        for (error, expected) in [
            (InspectError::from(refused), "see the cause (ERR): max daily request"),
            (of_queue, "queue `q` cannot be read: see the cause (ERR): max daily request"),
        ] {
            assert_eq!(CliError::from(error).line(), expected);
        }
    }
}
