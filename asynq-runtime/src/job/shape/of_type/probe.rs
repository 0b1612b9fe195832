//! Keeps the question that one pass asks a type: whether two announced names stand for one field.

use std::cell::Cell;

use super::arena::{Named, Slot};

thread_local! {
    /// The name of the field that was there twice in this pass. A type may replace the error that carries the name.
    pub(super) static TWICE: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Two names of one struct or variant, and the slot of the field that the first stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    pub(super) of: (Named, Option<usize>),
    pub(super) first: (&'static str, Slot),
    pub(super) second: &'static str,
}

/// The answer of a pass about its two names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The pass came to the struct and has not ended.
    Pending,
    /// The names stand for two fields.
    TwoFields,
}
