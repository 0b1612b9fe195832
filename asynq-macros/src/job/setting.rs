//! The values of the attribute's options.

use std::ops::Deref;

use asynq_grammar::Backoff;
use syn::{ExprPath, Ident};

use crate::errors::Position;

/// A valid value and the option it was written for.
pub(super) struct Setting<T> {
    pub(super) value: T,
    pub(super) key: Ident,
    pub(super) position: Position,
}

impl<T> Deref for Setting<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    Postcard,
    Json,
}

/// The event that frees the lock of a unique task.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UniqueUntil {
    End,
    Success,
    Start,
}

/// How long a failed task waits.
pub(super) enum Pause {
    /// By a back-off in text.
    Declared(Backoff),
    /// By this function.
    By(ExprPath),
}
