//! The error of every broker; [`BrokerError::kind`] tells failures apart.

use std::{error::Error, fmt, sync::Arc};

/// A call of a broker that failed.
///
/// A `BrokerError` is cheap to clone, because one failure may be the answer to every item of a batch. Its text says
/// what to do and never contains a password. [`kind`](Self::kind) and the predicates are stable;
/// [`source`](Error::source) is for logs.
#[derive(Clone)]
pub struct BrokerError(Arc<Inner>);

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
    /// Try again later. Whether the call took effect is unknown.
    Unavailable,
    /// No answer came in time. Whether the call took effect is unknown.
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
    /// The broker gave an answer that none of its versions should give.
    Unexpected,
}

impl BrokerError {
    /// Makes an error of `kind`; `message` says what to do.
    pub fn new(kind: BrokerErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner { kind, message: message.into(), source: None }))
    }

    /// Makes an error of `kind` with the error that caused it; [`new`](Self::new) makes one without.
    pub fn with_source(
        kind: BrokerErrorKind,
        message: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self(Arc::new(Inner { kind, message: message.into(), source: Some(source.into()) }))
    }

    /// Returns the kind of the failure.
    pub fn kind(&self) -> BrokerErrorKind {
        self.0.kind
    }

    /// Returns whether a later try may work: [`Unavailable`](BrokerErrorKind::Unavailable) or
    /// [`Timeout`](BrokerErrorKind::Timeout).
    pub fn is_unavailable(&self) -> bool {
        matches!(self.0.kind, BrokerErrorKind::Unavailable | BrokerErrorKind::Timeout)
    }

    /// Returns whether the call may have taken effect in spite of the error: the broker is
    /// [unavailable](Self::is_unavailable), or the kind is [`Unconfirmed`](BrokerErrorKind::Unconfirmed), and then the
    /// call has taken effect.
    pub fn is_ambiguous(&self) -> bool {
        self.is_unavailable() || self.0.kind == BrokerErrorKind::Unconfirmed
    }

    /// Returns whether the broker has no room left: [`Full`](BrokerErrorKind::Full).
    pub fn is_full(&self) -> bool {
        self.0.kind == BrokerErrorKind::Full
    }

    /// Returns whether the broker refused the login, or the login lacks a permission:
    /// [`Denied`](BrokerErrorKind::Denied).
    pub fn is_denied(&self) -> bool {
        self.0.kind == BrokerErrorKind::Denied
    }
}

impl fmt::Display for BrokerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for BrokerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokerError")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("source", &self.0.source)
            .finish()
    }
}

impl Error for BrokerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
