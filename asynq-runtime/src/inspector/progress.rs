//! How far a change of many tasks is, and its report.

use crate::broker::BulkSlice;

/// The progress of a bulk call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BulkProgress {
    /// Tasks that existed at the start, which is the limit of the call.
    pub total: u64,
    /// Tasks of `total` that are done: [`changed`](Self::changed) and [`ghosts`](Self::ghosts).
    pub done: u64,
    /// Tasks that were changed.
    pub changed: u64,
    /// Ids without a task that were removed from the list.
    pub ghosts: u64,
}

impl BulkProgress {
    pub(super) fn add(&mut self, slice: BulkSlice) {
        self.changed += slice.changed as u64;
        self.ghosts += slice.ghosts as u64;
        self.done += (slice.changed + slice.ghosts) as u64;
    }
}

/// The result of a bulk call. Every chosen task is counted in one of these fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BulkReport {
    /// Tasks that were changed.
    pub changed: u64,
    /// Ids without a task that were removed from the list, because another program deleted the tasks alone.
    pub ghosts: u64,
    /// Chosen tasks that remain: they came in the meantime, are beyond [`Bulk::at_most`](super::Bulk::at_most), or are in some of the more than
    /// 2,000 groups of a queue on Redis, whose tasks are estimated at the start. Repeat the call to change them too.
    pub left: u64,
    /// Archived tasks beyond the limit of the archive: a server will delete so many, the oldest first. Zero unless the action
    /// archives.
    pub beyond_archive_limit: u64,
}

impl From<BulkProgress> for BulkReport {
    /// The report of an interrupted call; `left` is the tasks that were not done.
    fn from(progress: BulkProgress) -> Self {
        Self {
            changed: progress.changed,
            ghosts: progress.ghosts,
            left: progress.total.saturating_sub(progress.done),
            beyond_archive_limit: 0,
        }
    }
}

/// The callback for the progress, if one was given.
#[derive(Default)]
pub(super) struct OnProgress(Option<Box<dyn FnMut(BulkProgress) + Send>>);

impl OnProgress {
    pub(super) fn new(callback: impl FnMut(BulkProgress) + Send + 'static) -> Self {
        Self(Some(Box::new(callback)))
    }

    pub(super) fn report(&mut self, progress: BulkProgress) {
        if let Some(callback) = &mut self.0 {
            callback(progress);
        }
    }
}

partial_debug!(OnProgress { .. });
