//! Why a task was not enqueued.

use super::{CodecError, SharedError};
use crate::{
    broker::{BrokerError, Refused},
    task::{InvalidName, QueueName, TaskId, equal_task},
};

/// A task that was not enqueued. Nothing of the task is stored, unless [`is_ambiguous`](Self::is_ambiguous) says that this is
/// not known.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The arguments cannot be encoded.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The name of a queue or a group, a task id or a type is not valid.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The value of an option is not valid.
    #[error("invalid option `{option}`: {reason}")]
    Option {
        /// The option.
        option: &'static str,
        /// The reason, and what to write instead.
        reason: String,
    },
    /// The payload is larger than the client allows.
    #[error(
        "the payload has {size} bytes, more than the limit of {limit}; store it elsewhere and enqueue its place, or raise `payload_limit`"
    )]
    TooLarge {
        /// The size in bytes.
        size: usize,
        /// The client's limit.
        limit: usize,
    },
    /// The task id is taken in its queue.
    #[error("task id `{id}` is taken in queue `{queue}`")]
    IdConflict {
        /// The queue.
        queue: QueueName,
        /// The id.
        id: TaskId,
    },
    /// An equal task holds the unique lock.
    #[error("{}", equal_task(holder.as_ref()))]
    Duplicate {
        /// The task that holds the lock, if the broker could tell.
        holder: Option<TaskId>,
    },
    /// A layer of the client refused the task or gave up on it. The task may be stored: a layer can give up after it has passed the
    /// task on.
    #[error("{0}")]
    Layer(#[source] SharedError),
    /// The client has layers, which are asynchronous: a transaction cannot wait for them.
    #[cfg(feature = "sqlite")]
    #[error(
        "this client has layers, and a task that joins a transaction cannot go through them; enqueue it by \
         `client.without_layers()` if it needs none of them, or by `enqueue` after the commit"
    )]
    LayersInTransaction,
    /// The caller's transaction cannot take the task; the error's text says what to do. A failure of SQLite or of the broker is
    /// [`Broker`](Self::Broker), as it is outside of a transaction.
    #[cfg(feature = "sqlite")]
    #[error(transparent)]
    Transaction(crate::broker::sqlite::TransactionError),
    /// The broker failed; the error's text says what to do.
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

debug_as_text!(EnqueueError);

impl EnqueueError {
    /// Returns whether the task, or one equal to it, is stored already: a taken id or a held unique lock.
    pub fn is_duplicate(&self) -> bool {
        matches!(self, Self::IdConflict { .. } | Self::Duplicate { .. })
    }

    /// Returns whether the id is taken.
    pub fn is_id_conflict(&self) -> bool {
        matches!(self, Self::IdConflict { .. })
    }

    /// Returns the task that is stored already.
    pub fn existing_id(&self) -> Option<&TaskId> {
        match self {
            Self::IdConflict { id, .. } => Some(id),
            Self::Duplicate { holder } => holder.as_ref(),
            _ => None,
        }
    }

    /// Returns whether the task may be stored although the call failed: the broker did not answer in time, was closed before it
    /// answered, or refused the repeat of a send that it had not answered; or the task is stored, less safely than asked
    /// ([`Unconfirmed`](crate::broker::BrokerErrorKind::Unconfirmed)). So it is with every error of a layer: the layer may have passed the
    /// task on before it gave up.
    pub fn is_ambiguous(&self) -> bool {
        match self {
            Self::Broker(error) => error.is_ambiguous(),
            Self::Layer(_) => true,
            _ => false,
        }
    }

    pub(crate) fn refused(refused: Refused, queue: QueueName, id: TaskId) -> Self {
        match refused {
            Refused::IdConflict => Self::IdConflict { queue, id },
            Refused::Duplicate { holder } => Self::Duplicate { holder },
            Refused::Broker(error) => Self::Broker(error),
        }
    }
}
