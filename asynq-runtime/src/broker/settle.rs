//! Contract: end a run (docs/design/fence.md#settle).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

#[cfg(any(feature = "redis", feature = "sqlite"))]
use super::BrokerErrorKind;
use super::{BrokerError, RunKey};
use crate::task::{Extra, Progress, TaskMessage};

/// Ends runs, each exactly once and only by the server that holds it.
#[async_trait::async_trait]
pub trait Settle {
    /// Performs each action if its run is still ours. A stale one changes nothing at all. An error that is stored is kept
    /// beside the task as one of its last 10 [failures](super::Inspect::failures) as well, of which the newest is whole and the others have
    /// at most 256 bytes of text.
    ///
    /// An item that got an error may be sent again with [`Settlement::resend`] set, for as long as it takes: the broker
    /// recognises its own first send and answers [`Settled::Ok`]. (A [`Action::Done`] that worked leaves nothing to recognise:
    /// where another task has the id by then, Redis answers [`Settled::Fenced`].) Without the mark a second outcome of a run
    /// is a stale one.
    async fn settle(&self, batch: &[Settlement]) -> Vec<Result<Settled, BrokerError>>;

    /// Stores a result while the task still runs; kept after success only where the task has a retention.
    ///
    /// # Errors
    ///
    /// The broker failed; the write may be repeated.
    async fn write_result(&self, run: &RunKey, result: &Bytes) -> Result<Settled, BrokerError>;

    /// Frees the unique lock `key` of a run that is still ours and holds it: for tasks that are unique until they start.
    /// [`Settled::Ok`] also where the lock was free or another's already.
    ///
    /// # Errors
    ///
    /// The broker failed; the call may be repeated.
    async fn free_lock(&self, run: &RunKey, key: &str) -> Result<Settled, BrokerError>;

    /// Shows how far a run is. The next dequeue of the task takes it away again.
    ///
    /// # Errors
    ///
    /// The broker failed; the write may be repeated.
    async fn write_progress(&self, run: &RunKey, progress: &Progress) -> Result<Settled, BrokerError>;

    /// Keeps where a run has got to, in place of what was kept before. It stays with the task until a run succeeds or its payload
    /// is edited, whichever server runs it next; only [`checkpoint`](Self::checkpoint) reads it.
    ///
    /// # Errors
    ///
    /// The broker failed; the write may be repeated.
    async fn save_checkpoint(&self, run: &RunKey, checkpoint: &Bytes) -> Result<Settled, BrokerError>;

    /// What this run or an earlier one of the task has [saved](Self::save_checkpoint) last.
    ///
    /// # Errors
    ///
    /// The broker failed, or the run does not hold its task any more ([`BrokerErrorKind::Closed`](super::BrokerErrorKind)).
    async fn checkpoint(&self, run: &RunKey) -> Result<Option<Bytes>, BrokerError>;
}

/// Why nothing can be read for a run that does not hold its task.
#[cfg(any(feature = "redis", feature = "sqlite"))]
pub(super) fn run_has_ended() -> BrokerError {
    BrokerError::new(BrokerErrorKind::Closed, "this run has ended: the task was taken over or deleted")
}

/// One outcome on its way to the broker.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// The run that ends.
    pub run: RunKey,
    /// The task as it was dequeued. For one that could not be decoded: a message made in its place, whose payload is the
    /// raw bytes.
    pub message: Arc<TaskMessage>,
    /// What becomes of the task.
    pub action: Action,
    /// Whether this was sent before without an answer.
    pub resend: bool,
}

/// What becomes of a task whose run ends.
///
/// `processed` and `failed` are asynq's counters. Every action but [`Requeue`](Self::Requeue) sets `crashes` back to 0:
/// an attempt that ended by itself clears the suspicion.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Success, or revoked while no program waits for its end: delete it, free its unique lock, count it as processed.
    Done,
    /// Success with a retention: keep it with its result until now + `message.retention`, free the lock, count it as
    /// processed.
    Complete {
        /// What the job returned; `None` leaves a result that was written while it ran.
        result: Option<Bytes>,
    },
    /// Revoked by its job while a program waits for its end: keep it without a result until now + `message.retention`, free the
    /// lock, count it as processed.
    Revoke {
        /// Replaces the extra facts.
        extra: Extra,
    },
    /// Run it again after `delay`; the lock stays.
    Retry {
        /// From now, by the broker's clock, kept to the millisecond.
        delay: Duration,
        /// Written as the last error, cut to 4 KiB, with the time, if given; else the message stays as it is.
        error: Option<String>,
        /// Whether this spends a retry: `retried` + 1, and counted as processed and failed.
        counted: bool,
        /// Replaces the extra facts.
        extra: Extra,
    },
    /// Give it up: keep it for people to look at, free the lock unless [`Extra::keeps_lock_when_archived`] says
    /// otherwise, count it as processed and failed.
    Archive {
        /// Why, for people; cut to 4 KiB.
        error: String,
        /// Replaces the extra facts.
        extra: Extra,
    },
    /// Back to the head of its queue as if nothing had happened: nothing spent, nothing counted. Of several in one call the
    /// last is the next to be taken, as if each had come in a call of its own.
    Requeue,
}

/// What the broker says to an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Settled {
    /// Done as asked, now or by an earlier send.
    Ok,
    /// Someone else has taken the task meanwhile, or this run has ended otherwise; nothing was changed.
    Fenced,
    /// The task does not exist any more; nothing was changed.
    Gone,
}

/// Most bytes of an error text: more is no help to anybody, and every program that lists tasks reads it.
const LONGEST_ERROR: usize = 4096;

/// Most bytes of the error text of a failure that is not the newest of its task.
#[cfg(feature = "sqlite")]
pub(crate) const OLDER_ERROR: usize = 256;

/// The error text as every broker stores it: at most 4 KiB, cut between two characters.
pub(crate) fn shortened(error: &str) -> &str {
    cut(error, LONGEST_ERROR)
}

/// At most so many bytes of a text, cut between two characters.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn a_long_error_is_cut_between_two_characters() {
        for (error, length) in [("ä".repeat(4096), 4096), (format!("x{}", "ä".repeat(4096)), 4095), ("e".into(), 1)] {
            assert_eq!(shortened(&error).len(), length);
        }
    }
}
