//! Why a task was not enqueued.

use std::sync::Arc;

use super::CodecError;
use crate::{
    broker::{BrokerError, Refused},
    task::{InvalidName, QueueName, TaskId},
};

/// A task that was not enqueued. Nothing of it is stored, except where
/// [`is_ambiguous`](Self::is_ambiguous) says that this is not known.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The arguments cannot be encoded.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// A queue, a task id or a type that cannot be.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// An option that cannot be.
    #[error("invalid option `{option}`: {reason}")]
    Option {
        /// Which.
        option: &'static str,
        /// Why, and what to write.
        reason: String,
    },
    /// The payload is larger than the client allows.
    #[error(
        "the payload has {size} bytes, more than the limit of {limit}; store it elsewhere and enqueue its place, or raise `payload_limit`"
    )]
    TooLarge {
        /// Its bytes.
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
    #[error("an equal task is already waiting or running{}", holder.as_ref().map(|id| format!(" (id {id})")).unwrap_or_default())]
    Duplicate {
        /// The task that holds it, where the broker could tell.
        holder: Option<TaskId>,
    },
    /// A layer of the client refused it.
    #[error("{0}")]
    Layer(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The client has layers, which are asynchronous: a transaction cannot wait for them.
    #[cfg(feature = "sqlite")]
    #[error(
        "this client has layers, and a task that joins a transaction cannot go through them; enqueue it by \
         `client.without_layers()` if it needs none of them, or by `enqueue` after the commit"
    )]
    LayersInTransaction,
    /// The caller's transaction cannot take the task; its text says what to do.
    #[cfg(feature = "sqlite")]
    #[error(transparent)]
    Transaction(#[from] crate::broker::sqlite::TransactionError),
    /// The broker failed; its text says what to do.
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

impl EnqueueError {
    /// Whether the task, or one equal to it, is there already: a taken id or a held unique lock.
    pub fn is_duplicate(&self) -> bool {
        matches!(self, Self::IdConflict { .. } | Self::Duplicate { .. })
    }

    /// Whether the id is taken.
    pub fn is_id_conflict(&self) -> bool {
        matches!(self, Self::IdConflict { .. })
    }

    /// The task that is there already.
    pub fn existing_id(&self) -> Option<&TaskId> {
        match self {
            Self::IdConflict { id, .. } => Some(id),
            Self::Duplicate { holder } => holder.as_ref(),
            _ => None,
        }
    }

    /// Whether the task may be stored although the call failed: the broker did not answer in time.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self, Self::Broker(error) if error.is_ambiguous())
    }

    pub(crate) fn refused(refused: Refused, queue: QueueName, id: TaskId) -> Self {
        match refused {
            Refused::IdConflict => Self::IdConflict { queue, id },
            Refused::Duplicate { holder } => Self::Duplicate { holder },
            Refused::Broker(error) => Self::Broker(error),
        }
    }
}
