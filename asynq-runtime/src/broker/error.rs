//! The error of every broker; [`BrokerError::kind`] tells failures apart.

use std::{error::Error, fmt, sync::Arc};

use crate::task::add_causes;

/// A call of a broker that failed.
///
/// A `BrokerError` is cheap to clone, because one failure may be the answer to every item of a batch. Its text says
/// what to do, names the causes, because most programs show no more than the text, and never contains a password.
/// [`kind`](Self::kind) and the predicates are stable.
#[derive(Clone)]
pub struct BrokerError {
    inner: Arc<Inner>,
    /// Whether the call changed nothing.
    is_without_effect: bool,
    /// Whether no byte of this call to Redis was written. Other calls of the same operation may have changed something.
    #[cfg(feature = "redis")]
    is_unsent: bool,
}

struct Inner {
    kind: BrokerErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// The kind of a failure, as far as a program can act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BrokerErrorKind {
    /// The broker is not reachable or not ready now: it refused or closed the connection, loads, fails over or is busy.
    /// Try again later. Whether the call took effect is unknown where [`is_ambiguous`](BrokerError::is_ambiguous) says so.
    Unavailable,
    /// No answer came in time. Whether the call took effect is unknown where [`is_ambiguous`](BrokerError::is_ambiguous) says so.
    Timeout,
    /// The broker has no room: its memory limit is reached, or the disk is full. Nothing was stored.
    Full,
    /// The call took effect, but less safely than the program asked for: replicas or the disk did not confirm it in
    /// time. See `broker::redis::Durability`.
    Unconfirmed,
    /// The password is wrong, a permission is missing, Redis is in protected mode, or one side refuses the other's certificate.
    Denied,
    /// The URL or an option cannot be used, or the server lacks what the call needs.
    Config,
    /// The stored data was not written by asynq or this crate, or is damaged.
    Corrupt,
    /// The program has closed the broker.
    Closed,
    /// The run of a job that reports its progress or reads its checkpoint has ended, because its task was taken over or deleted.
    RunEnded,
    /// The broker gave an answer that none of its versions should give.
    Unexpected,
}

/// Makes the error of a URL, an option or an argument that cannot be used, or of a server that lacks what the call needs.
pub(crate) fn config(message: impl Into<String>) -> BrokerError {
    BrokerError::new(BrokerErrorKind::Config, message)
}

/// Makes the error of a call that others, or the state of the broker, hold up now.
#[cfg(feature = "redis")]
pub(crate) fn unavailable(message: impl Into<String>) -> BrokerError {
    BrokerError::new(BrokerErrorKind::Unavailable, message)
}

/// Makes the error of stored data that asynq did not write, or that is damaged.
pub(crate) fn corrupt(message: impl Into<String>) -> BrokerError {
    BrokerError::new(BrokerErrorKind::Corrupt, message)
}

impl BrokerError {
    /// Makes an error of `kind`; `message` says what to do.
    pub fn new(kind: BrokerErrorKind, message: impl Into<String>) -> Self {
        Self::of(Inner { kind, message: message.into(), source: None })
    }

    /// Makes an error of `kind` with the error that caused it, whose text, and those of its own causes, come behind `message` unless
    /// they are in it; [`new`](Self::new) makes one without.
    pub fn with_source(
        kind: BrokerErrorKind,
        message: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        let source = source.into();
        let message = add_causes(message.into(), Some(&*source));
        Self::of(Inner { kind, message, source: Some(source) })
    }

    fn of(inner: Inner) -> Self {
        Self {
            inner: Arc::new(inner),
            is_without_effect: false,
            #[cfg(feature = "redis")]
            is_unsent: false,
        }
    }

    /// Returns this error of a call that changed nothing, as the broker said, or because the call was given up before it began.
    pub(crate) fn without_effect(self) -> Self {
        Self { is_without_effect: true, ..self }
    }

    /// Returns this error of a call of which no byte was written.
    #[cfg(feature = "redis")]
    pub(crate) fn unsent(self) -> Self {
        Self { is_unsent: true, ..self }
    }

    /// Returns whether no byte of the call was written.
    #[cfg(feature = "redis")]
    pub(crate) fn is_unsent(&self) -> bool {
        self.is_unsent
    }

    /// Returns the kind of the failure.
    pub fn kind(&self) -> BrokerErrorKind {
        self.inner.kind
    }

    /// Returns whether a later try may work: [`Unavailable`](BrokerErrorKind::Unavailable) or
    /// [`Timeout`](BrokerErrorKind::Timeout).
    pub fn is_unavailable(&self) -> bool {
        matches!(self.inner.kind, BrokerErrorKind::Unavailable | BrokerErrorKind::Timeout)
    }

    /// Returns whether the call may have taken effect in spite of the error: the broker is
    /// [unavailable](Self::is_unavailable), unless it had yet to begin the call (on SQLite), or an enqueue or a change of one task was
    /// never sent, as without a connection, or was answered that Redis takes no writes now; or the kind is
    /// [`Unconfirmed`](BrokerErrorKind::Unconfirmed), and then the call has taken effect.
    pub fn is_ambiguous(&self) -> bool {
        self.is_unavailable() && !self.is_without_effect || self.inner.kind == BrokerErrorKind::Unconfirmed
    }

    /// Returns whether the broker has no room left: [`Full`](BrokerErrorKind::Full).
    pub fn is_full(&self) -> bool {
        self.inner.kind == BrokerErrorKind::Full
    }
}

impl fmt::Display for BrokerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.message)
    }
}

debug_as_text!(BrokerError);

impl Error for BrokerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.inner.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_error_names_each_cause_once_and_not_at_any_length() {
        let error = |message: &str, source: BrokerError| {
            BrokerError::with_source(BrokerErrorKind::Unexpected, message, source).to_string()
        };
        let refused = BrokerError::with_source(
            BrokerErrorKind::Unexpected,
            "Redis refused: see the cause (ERR)",
            "max daily request",
        );
        assert_eq!(refused.to_string(), "Redis refused: see the cause (ERR): max daily request");
        assert_eq!(error("h:1", refused.clone()), "h:1: Redis refused: see the cause (ERR): max daily request");
        assert_eq!(error(&format!("{refused} at h:1"), refused.clone()), format!("{refused} at h:1"));
        assert_eq!(format!("{refused:?}"), refused.to_string());
        let long = BrokerError::new(BrokerErrorKind::Unexpected, "x".repeat(1 << 20));
        assert_eq!(error("", long).len(), ": ".len() + 4096);
    }
}
