//! An error that several values share.

use std::{error::Error, fmt, ops::Deref, sync::Arc};

use super::BoxError;

/// The error of a service or of a client's layer, shared by all values that hold it. It displays and downcasts as the error itself.
#[derive(Debug, Clone)]
pub struct SharedError(Arc<dyn Error + Send + Sync>);

// `SharedError` does not implement `Error`, as an `Arc` of an error does: otherwise it, and not the error itself, would be the source
// of a `ServerError` or an `EnqueueError`, and a caller could not downcast that source.
impl Deref for SharedError {
    type Target = dyn Error + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<BoxError> for SharedError {
    fn from(error: BoxError) -> Self {
        Self(error.into())
    }
}
