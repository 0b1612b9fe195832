//! The state that the passes share: the place of the recorder, its limits, and the reason why the last pass failed.

use std::fmt;

use serde::de;

use super::{
    arena::{Arena, Choice, Named, Shape, Slot},
    probe::{Answer, Probe, TWICE},
    reads::Reads,
    sample,
};

/// Deeper than this the recorder follows no type, so that an endless one ends.
const DEEPEST: usize = 96;
/// After this many requests a pass answers with as little as possible, so that wide types do not take for ever.
const MOST_REQUESTS: usize = 20_000;

/// Everything the passes share.
#[derive(Debug)]
pub(super) struct Recorder {
    pub(super) arena: Arena,
    /// A type that asked for a self-describing format.
    pub(super) self_describing: Option<String>,
    pub(super) reads: Reads,
    pub(super) is_human_readable: bool,
    pub(super) root: Slot,
    depth: usize,
    /// How many types on the way from the root are inside themselves.
    again: usize,
    pub(super) requests: usize,
    pub(super) last_leaf: Option<Slot>,
    /// Whether the pass was ended by the recorder, not by the type.
    pub(super) is_stopped: bool,
    /// The innermost place on the way to the failure where another answer is possible.
    pub(super) failed_at: Option<Choice>,
    /// The struct that is asked about its names in this pass, and its answer.
    pub(super) probe: Option<(Probe, Option<Answer>)>,
}

impl Recorder {
    pub(super) fn new(is_human_readable: bool) -> Self {
        let mut arena = Arena::default();
        let root = arena.slot();
        Self {
            arena,
            self_describing: None,
            reads: Reads::default(),
            is_human_readable,
            root,
            depth: 0,
            again: 0,
            requests: 0,
            last_leaf: None,
            is_stopped: false,
            failed_at: None,
            probe: None,
        }
    }

    /// Returns the probe of this struct or variant, if it was not asked in this pass yet.
    pub(super) fn probe_of(&self, of: (Named, Option<usize>)) -> Option<Probe> {
        match self.probe {
            Some((probe, None)) if probe.of == of => Some(probe),
            _ => None,
        }
    }

    pub(super) fn begin_pass(&mut self) {
        self.arena.leave_all();
        (self.depth, self.again, self.requests) = (0, 0, 0);
        (self.last_leaf, self.is_stopped, self.failed_at) = (None, false, None);
    }

    /// Gives the last leaf of the failed pass another sample; `false` if there is none left.
    pub(super) fn try_next_sample(&mut self) -> bool {
        let Some(slot) = self.last_leaf else { return false };
        let Shape::Leaf(leaf) = *self.arena.shape(slot) else { return false };
        let sample = self.arena.sample(slot);
        *sample = (*sample + 1) % sample::count(leaf);
        *sample != 0
    }

    pub(super) fn note<T>(&mut self, choice: Choice, result: Result<T, Stop>) -> Result<T, Stop> {
        if result.is_err() {
            self.failed_at.get_or_insert(choice);
        }
        result
    }

    pub(super) fn minimal(&self) -> bool {
        self.again > 0 || self.requests > MOST_REQUESTS
    }

    pub(super) fn stop(&mut self) -> Stop {
        self.is_stopped = true;
        Stop
    }

    pub(super) fn enter(&mut self, named: Named) -> Result<(), Stop> {
        if self.depth >= DEEPEST {
            return Err(self.stop());
        }
        self.depth += 1;
        let depth = self.arena.depth(named);
        *depth += 1;
        self.again += usize::from(*depth > 1);
        Ok(())
    }

    pub(super) fn leave(&mut self, named: Named) {
        self.depth -= 1;
        let depth = self.arena.depth(named);
        self.again -= usize::from(*depth > 1);
        *depth -= 1;
    }
}

/// The end of a pass. The recorder holds the reason, because a type that reports this error may wrap or replace it.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the recorder stopped")]
pub(super) struct Stop;

impl de::Error for Stop {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }

    fn duplicate_field(field: &'static str) -> Self {
        TWICE.set(Some(field));
        Self
    }
}
