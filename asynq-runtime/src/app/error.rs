//! Why a command of a program failed, in one line.

use super::terminal::is_hostile;
use crate::{
    broker::BrokerError,
    censor::{usage_without_passwords, without_passwords},
    inspector::InspectError,
    job::{BoxError, EnqueueError, InvalidLock, RegistryError, with_causes},
    server::ServerError,
};

/// Why a worker could not be set up or had to stop, or a command was refused. No text carries a password.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum AppError {
    /// A flag, a variable or an argument cannot be read.
    #[error("{what}: {reason}")]
    Setting {
        /// Name of the setting, such as `--queues` or `ASYNQ_QUEUES`.
        what: &'static str,
        /// Why it cannot be read, and how to write it.
        reason: String,
    },
    /// The jobs of this program cannot be served.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The program's own set-up function failed.
    #[error("the set-up of this program failed: {0}")]
    SetUp(#[source] BoxError),
    /// The server could not be built or started, or had to stop.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The broker failed.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// Some queues cannot be read; the others were shown.
    #[error("{queues} of the queues cannot be read")]
    Unreadable {
        /// How many.
        queues: usize,
    },
    /// The list of servers cannot be read; the queues were shown.
    #[error("the list of servers cannot be read")]
    UnreadableServers,
    /// The facts to show cannot be read.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// No job has this name.
    #[error("this program has no job `{name}`{hint}")]
    UnknownJob {
        /// The name that was asked for.
        name: String,
        /// The names of the jobs that exist.
        hint: String,
    },
    /// The arguments do not fit the job.
    #[error("`{job}` does not take these arguments: {reason}; it takes {shape}")]
    Arguments {
        /// The job.
        job: &'static str,
        /// Why the arguments do not fit.
        reason: String,
        /// The shape of the job's arguments.
        shape: String,
    },
    /// The task was refused.
    #[error(transparent)]
    Enqueue(#[from] EnqueueError),
    /// A `jobs.lock` cannot be read.
    #[error("{file}: {source}")]
    Lock {
        /// The file.
        file: String,
        /// The line, and why it cannot be read.
        source: InvalidLock,
    },
    /// A deploy of this program would strand tasks, or its shapes are not locked.
    #[error("{found} {} unsafe ({file})", if *found == 1 { "shape is" } else { "shapes are" })]
    UnsafeDeploy {
        /// How many shapes are unsafe: shapes in the file, and those of this program that are not in it.
        found: usize,
        /// The file.
        file: String,
    },
    /// The operating system refused an operation.
    #[error("{what}: {source}")]
    System {
        /// The operation that failed.
        what: String,
        /// The error of the system.
        source: std::io::Error,
    },
}

debug_as_text!(AppError);

impl AppError {
    pub(super) fn setting(what: &'static str, reason: impl ToString) -> Self {
        Self::Setting { what, reason: reason.to_string() }
    }

    /// Returns the text of the error with every cause that it does not name already, on one line and without hostile characters: it
    /// may quote the id of a task that another program chose.
    #[cfg_attr(not(feature = "main"), allow(dead_code, reason = "only `main!` prints it"))]
    pub(super) fn line(&self) -> String {
        let text = match self {
            // These options are checked behind the place that knows where they were written.
            Self::Server(ServerError::Option { option: "only", reason }) => {
                format!("--only, ASYNQ_ONLY or App::only: {reason}")
            }
            Self::Server(ServerError::Option { option: "except", reason }) => {
                format!("--except, ASYNQ_EXCEPT or App::except: {reason}")
            }
            Self::Enqueue(EnqueueError::Option { option: "process_in", reason }) => format!("--in: {reason}"),
            Self::Enqueue(EnqueueError::Option { option: "process_at", reason }) => format!("--at: {reason}"),
            Self::Enqueue(error) if error.is_ambiguous() => {
                format!("{}; a repeat may store the task a second time: look for it first", with_causes(self))
            }
            _ => with_causes(self),
        };
        // These errors name a task that is stored, which is looked up by its id; all others may quote a URL without its scheme.
        let is_of_stored_task = matches!(self, Self::Enqueue(error) if error.is_duplicate());
        as_line(&text, if is_of_stored_task { without_passwords } else { usage_without_passwords })
    }
}

/// Returns a text as the line of an error shows it: with one blank for each run of them, without the passwords that `censor` hides and
/// without hostile characters.
pub(super) fn as_line(text: &str, censor: fn(&str) -> String) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    censor(&line).replace(is_hostile, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{broker::BrokerErrorKind, task::TaskId};

    /// A `main` of the program's own prints it.
    #[test]
    fn the_debug_of_an_error_is_its_text() {
        let error = AppError::from(RegistryError::NoJobs);
        assert_eq!(format!("{error:?}"), error.to_string());
        let error = AppError::setting("ASYNQ_CONCURRENCY", "this is wrong");
        assert_eq!(format!("{error:?}"), "ASYNQ_CONCURRENCY: this is wrong");
    }

    #[test]
    fn shapes_that_are_not_in_the_file_are_not_called_shapes_of_it() {
        for (found, expected) in [(1, "1 shape is unsafe (jobs.lock)"), (2, "2 shapes are unsafe (jobs.lock)")] {
            assert_eq!(AppError::UnsafeDeploy { found, file: "jobs.lock".into() }.line(), expected);
        }
    }

    #[test]
    fn an_option_is_named_as_a_flag_and_a_variable_write_it() {
        let reason = || "this is wrong".to_owned();
        let server = |option| AppError::Server(ServerError::Option { option, reason: reason() }).line();
        assert_eq!(server("only"), "--only, ASYNQ_ONLY or App::only: this is wrong");
        assert_eq!(server("except"), "--except, ASYNQ_EXCEPT or App::except: this is wrong");
        assert_eq!(server("queues"), "invalid option `queues`: this is wrong");
        let enqueue = |option| AppError::Enqueue(EnqueueError::Option { option, reason: reason() }).line();
        assert_eq!(enqueue("process_in"), "--in: this is wrong");
        assert_eq!(enqueue("process_at"), "--at: this is wrong");
    }

    #[test]
    fn a_task_that_may_be_stored_is_not_repeated_blindly() {
        let line = |kind| AppError::from(EnqueueError::from(BrokerError::new(kind, "no answer"))).line();
        let expected = "no answer; a repeat may store the task a second time: look for it first";
        assert_eq!(line(BrokerErrorKind::Timeout), expected);
        assert_eq!(line(BrokerErrorKind::Full), "no answer", "nothing was stored");
    }

    #[test]
    fn the_id_of_a_stored_task_is_shown_whole() {
        let id = TaskId::new("welcome:ann@example.com").unwrap();
        let line = |error: EnqueueError| AppError::from(error).line();
        let equal = line(EnqueueError::Duplicate { holder: Some(id) });
        assert_eq!(equal, "an equal task already holds the unique lock (id welcome:ann@example.com)");
        let option = line(EnqueueError::Option { option: "x", reason: "jobs:secret@host is wrong".to_owned() });
        assert_eq!(option, "invalid option `x`: jobs:***@host is wrong");
    }

    #[test]
    fn what_another_program_chose_does_not_act_on_the_terminal() {
        let error = AppError::setting("--queues", "equal to\n\u{1b}[2Jx\u{202e}y");
        assert_eq!(error.line(), "--queues: equal to \u{fffd}[2Jx\u{fffd}y");
    }
}
