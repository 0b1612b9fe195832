//! The reasons why a periodic entry is refused.

use asynq_runtime::{
    EnqueueError,
    broker::{BrokerError, Refused},
};

use crate::SpecError;

/// The reason why a periodic entry cannot be used or run.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum PeriodicError {
    /// The schedule is not valid.
    #[error("the schedule of `{job}` cannot be used: {source}")]
    Spec {
        /// The job.
        job: String,
        /// The error in the schedule.
        source: SpecError,
    },
    /// The entry's task cannot be enqueued.
    #[error("a periodic task cannot be enqueued: {0}")]
    Task(#[from] EnqueueError),
    /// Two entries have the same id.
    #[error(
        "`{job}` is scheduled twice under the same key, or without one and with the same arguments ({places}); give each a `key`"
    )]
    Twice {
        /// The job, and in brackets the key of the entry.
        job: String,
        /// The places where the two are written.
        places: String,
    },
    /// The broker refused a task that should run now, or did not say whether it stored the task.
    #[error("task `{id}` {} queue `{queue}`: {source}", fate(source))]
    Refused {
        /// The task.
        id: String,
        /// The queue.
        queue: String,
        /// The reason.
        source: Refused,
    },
    /// An entry of another program is listed with an option that cannot be read here.
    #[error("entry `{entry}` is listed with the option `{option}`, which cannot be read; run it from its own program")]
    Option {
        /// The entry.
        entry: String,
        /// The option as it is listed.
        option: String,
    },
    /// The program could not read the row of the entry ([`Periodic::invalid`](crate::Periodic::invalid)).
    #[error("the row of `{entry}` is not valid: {reason}")]
    Invalid {
        /// The job, and in brackets the key of the entry.
        entry: String,
        /// The reason.
        reason: String,
    },
    /// No job of the program has this name.
    #[error("no job `{job}` in this program; register it, or say `foreign()` if another program runs it")]
    UnknownJob {
        /// The name.
        job: String,
    },
}

/// Returns the text between the task and its queue: a broker that did not answer may have stored the task.
fn fate(source: &Refused) -> &'static str {
    match source {
        Refused::Broker(error) if error.is_ambiguous() => "may be stored in",
        _ => "was not enqueued in",
    }
}

debug_as_text!(PeriodicError);

impl PeriodicError {
    /// Returns the broker's error, if the broker failed.
    pub fn broker(&self) -> Option<&BrokerError> {
        match self {
            Self::Task(EnqueueError::Broker(error)) | Self::Refused { source: Refused::Broker(error), .. } => {
                Some(error)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use asynq_runtime::{TaskId, broker::BrokerErrorKind};

    use super::*;
    use crate::CronSpec;

    /// A `main` that returns an error prints its `Debug`.
    #[test]
    fn the_debug_of_an_error_is_its_text_with_its_causes() {
        let broker = BrokerError::with_source(BrokerErrorKind::Denied, "the login is refused", "WRONGPASS");
        let error = PeriodicError::from(EnqueueError::from(broker));
        let text = format!("{error:?}");
        assert!(text.starts_with("a periodic task cannot be enqueued: ") && text.ends_with("WRONGPASS"), "{text}");
        let error = CronSpec::parse("61 * * * *").expect_err("no such minute");
        assert_eq!(format!("{error:?}"), error.to_string());
    }

    #[test]
    fn a_task_that_may_be_stored_is_not_said_to_be_refused() {
        let text = |source: Refused| PeriodicError::Refused { id: "a".into(), queue: "q".into(), source }.to_string();
        let broker = |kind| Refused::from(BrokerError::new(kind, "x"));
        for kind in [BrokerErrorKind::Unavailable, BrokerErrorKind::Timeout, BrokerErrorKind::Unconfirmed] {
            assert_eq!(text(broker(kind)), "task `a` may be stored in queue `q`: x");
        }
        let holder = Some(TaskId::from_wire("t1"));
        for (source, why) in [
            (Refused::IdConflict, "taken in this queue"),
            (broker(BrokerErrorKind::Full), "x"),
            (Refused::Duplicate { holder }, "(id t1)"),
        ] {
            let text = text(source);
            assert!(text.starts_with("task `a` was not enqueued in queue `q`: ") && text.ends_with(why), "{text}");
        }
    }
}
