//! Contract: end a run (docs/design/fence.md#settle).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::{BrokerError, BrokerErrorKind, RunKey};
use crate::task::{Extra, Progress, TaskMessage, cut};

/// Ends runs, each exactly once and only for the server that holds it.
#[async_trait::async_trait]
pub trait Settle {
    /// Performs each action if its run still holds the task. The action of a stale run changes nothing. A stored error is also
    /// kept beside the task as one of its last 10 [failures](super::Inspect::failures): the newest as a whole, the others with at
    /// most 256 bytes of text.
    ///
    /// An item that got an error may be sent again with [`Settlement::resend`] set, as often as needed: the broker recognises its
    /// own first send and answers [`Settled::Ok`], until the task is deleted ([`Settled::Gone`]) or a later run of it has ended
    /// ([`Settled::Fenced`]). An [`Action::Done`] that worked leaves no trace, so its repeat is [`Settled::Ok`] where the task does not
    /// exist, and on Redis [`Settled::Fenced`] if another task has taken the id by then. An action that deleted the task because another
    /// one had replaced it leaves no trace either, and is answered with [`Settled::Gone`]. No repeat changes anything. Without the mark,
    /// the second outcome of a run is a stale one.
    async fn settle(&self, batch: &[Settlement]) -> Vec<Result<Settled, BrokerError>>;

    /// Stores a result while the task still runs. A success keeps it only if the task has a retention.
    ///
    /// # Errors
    ///
    /// The broker failed; the write may be repeated.
    async fn write_result(&self, run: &RunKey, result: &Bytes) -> Result<Settled, BrokerError>;

    /// Frees the unique lock `key` if the run still holds its task and the task still holds the lock: for tasks that are unique
    /// until they start. Also returns [`Settled::Ok`] if the lock was free already or another task holds it.
    ///
    /// # Errors
    ///
    /// The broker failed; the call may be repeated.
    async fn free_lock(&self, run: &RunKey, key: &str) -> Result<Settled, BrokerError>;

    /// Stores the progress of a run. The next dequeue of the task deletes it.
    ///
    /// # Errors
    ///
    /// The broker failed; the write may be repeated.
    async fn write_progress(&self, run: &RunKey, progress: &Progress) -> Result<Settled, BrokerError>;

    /// Stores a checkpoint of a run, in place of the previous one. The checkpoint stays with the task until a run succeeds or is
    /// revoked, or the payload is edited, whichever server runs the task next. Only [`checkpoint`](Self::checkpoint) reads it.
    ///
    /// # Errors
    ///
    /// The broker failed; the write may be repeated.
    async fn save_checkpoint(&self, run: &RunKey, checkpoint: &Bytes) -> Result<Settled, BrokerError>;

    /// Returns the checkpoint that this run or an earlier one of the task [saved](Self::save_checkpoint) last; `None` if there is
    /// none.
    ///
    /// # Errors
    ///
    /// The broker failed, or the run does not hold its task any more ([`BrokerErrorKind::RunEnded`](super::BrokerErrorKind)).
    async fn checkpoint(&self, run: &RunKey) -> Result<Option<Bytes>, BrokerError>;
}

/// The error for a read by a run that does not hold its task.
pub(super) fn run_has_ended() -> BrokerError {
    BrokerError::new(BrokerErrorKind::RunEnded, "this run has ended: the task was taken over or deleted")
}

/// The outcome of one run.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// The run that ends.
    pub run: RunKey,
    /// The task as it was dequeued. For a task that could not be decoded, a message made in its place, whose payload is the raw
    /// bytes.
    pub message: Arc<TaskMessage>,
    /// The action to perform on the task.
    pub action: Action,
    /// Whether this settlement was sent before and got no answer.
    pub resend: bool,
}

impl Settlement {
    /// Returns roughly how many bytes the settlement sends to the broker.
    pub(crate) fn bytes(&self) -> usize {
        if matches!(self.action, Action::Done | Action::Requeue) { 0 } else { self.held() }
    }

    /// Returns roughly how many bytes the settlement keeps in memory until the broker has taken it.
    pub(crate) fn held(&self) -> usize {
        let result = if let Action::Complete { result } = &self.action { result.as_ref() } else { None };
        self.message.payload.len() + result.map_or(0, Bytes::len)
    }
}

/// The action on a task whose run ends.
///
/// `processed` and `failed` are asynq's counters. An action that deletes the task because another one has replaced it counts as it
/// would have without. Every action but [`Requeue`](Self::Requeue) and [`Defer`](Self::Defer) sets the
/// task's `crashes` back to 0, because an attempt that ended by itself does not take workers down.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Success, or a revoked task whose end no program awaits: deletes the task, frees its unique lock and counts it as
    /// processed.
    Done,
    /// Success with a retention: keeps the task with its result until now + `message.retention`, frees the lock and counts the
    /// task as processed.
    Complete {
        /// The return value of the job; `None` leaves a result that was written while the job ran.
        result: Option<Bytes>,
    },
    /// Revoked by its job while a program awaits the end: keeps the task without a result until now + `message.retention`, frees
    /// the lock and counts the task as processed. A result that this run or an earlier one stored is deleted.
    Revoke {
        /// The new extra facts.
        extra: Extra,
    },
    /// Runs the task again after `delay`; the lock stays.
    Retry {
        /// Counted from now by the broker's clock, to the millisecond; a longer one ends after some 292 years.
        delay: Duration,
        /// The error text, stored as the last error with the time, cut to 4 KiB. `None` leaves the message as it is.
        error: Option<String>,
        /// Whether the retry is spent: `retried` + 1, counted as processed and failed.
        counted: bool,
        /// The new extra facts.
        extra: Extra,
    },
    /// Runs the task again after `delay`, because the run could not begin here. Nothing is counted and the lock stays, as in a retry
    /// that is not counted; unlike there, the crashes of the task stay: this run says nothing about them.
    Defer {
        /// As in [`Retry`](Self::Retry).
        delay: Duration,
        /// As in [`Retry`](Self::Retry).
        error: Option<String>,
        /// The new extra facts.
        extra: Extra,
    },
    /// Gives the task up: keeps it for people to look at, frees the lock unless `extra.unique_until` is
    /// [`UniqueUntil::Success`](crate::task::UniqueUntil::Success), and counts the task as processed and failed.
    Archive {
        /// The reason, for display; cut to 4 KiB.
        error: String,
        /// The new extra facts.
        extra: Extra,
    },
    /// Requeues the task at the head of its queue as if it had not been taken: no retry is spent, nothing is counted. Of several
    /// in one call the last is the next to be taken, as if each had come in a call of its own.
    Requeue,
}

/// The answer of the broker to a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Settled {
    /// The action was performed, now or by an earlier send.
    Ok,
    /// Another server has taken the task, or this run has ended otherwise; nothing was changed.
    Fenced,
    /// The task does not exist any more; nothing was changed.
    Gone,
}

/// Most bytes of a stored error text, because every program that lists tasks reads it.
const LONGEST_ERROR: usize = 4096;

/// Most bytes of the error text of a failure that is not the newest of its task.
#[cfg(feature = "sqlite")]
pub(crate) const OLDER_ERROR: usize = 256;

/// The error text as every broker stores it: at most 4 KiB, cut between two characters.
pub(crate) fn shortened(error: &str) -> &str {
    cut(error, LONGEST_ERROR)
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
