//! One error for every broker; ask it what it means instead of matching on its source.

use std::{error::Error, fmt, sync::Arc};

/// A broker did not do what it was asked.
///
/// Cheap to clone, because one failure may be the answer to every item of a batch. Its text says what to do and never
/// carries a password. [`kind`](Self::kind) and the predicates are the promise; the source is for people.
#[derive(Clone)]
pub struct BrokerError(Arc<Inner>);

struct Inner {
    kind: BrokerErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// What went wrong, as far as a program can act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BrokerErrorKind {
    /// Not reachable or not ready now: refused, cut off, loading, failing over, busy. Try again later. Whether the call
    /// took effect is unknown.
    Unavailable,
    /// No answer in time; whether the call took effect is unknown.
    Timeout,
    /// No room: memory limit or disk full. Nothing was stored.
    Full,
    /// It was done, but is not as safe as was asked for: replicas or disk did not confirm it in time. See
    /// `broker::redis::Durability`.
    Unconfirmed,
    /// Wrong password, missing permission, or a certificate that one side refuses.
    Denied,
    /// The URL or an option cannot be used.
    Config,
    /// What is stored there is not ours, or damaged.
    Corrupt,
    /// The broker was closed by this program.
    Closed,
    /// An answer that no version of the broker should give.
    Unexpected,
}

impl BrokerError {
    /// An error of `kind` with a text that says what to do.
    pub fn new(kind: BrokerErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner { kind, message: message.into(), source: None }))
    }

    /// The same with the error that caused it.
    pub fn with_source(
        kind: BrokerErrorKind,
        message: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self(Arc::new(Inner { kind, message: message.into(), source: Some(source.into()) }))
    }

    /// What went wrong.
    pub fn kind(&self) -> BrokerErrorKind {
        self.0.kind
    }

    /// Whether trying again later may work: [`Unavailable`](BrokerErrorKind::Unavailable) or
    /// [`Timeout`](BrokerErrorKind::Timeout).
    pub fn is_unavailable(&self) -> bool {
        matches!(self.0.kind, BrokerErrorKind::Unavailable | BrokerErrorKind::Timeout)
    }

    /// Whether the call may have taken effect in spite of the error: it is unavailable, or
    /// [`Unconfirmed`](BrokerErrorKind::Unconfirmed), and then it has.
    pub fn is_ambiguous(&self) -> bool {
        self.is_unavailable() || self.0.kind == BrokerErrorKind::Unconfirmed
    }

    /// Whether the broker has no room left.
    pub fn is_full(&self) -> bool {
        self.0.kind == BrokerErrorKind::Full
    }

    /// Whether the broker refused the login or lacks a permission for it.
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
