//! Counts what became of the rows when they were enqueued.

use std::collections::HashSet;

use asynq_runtime::prelude::{EnqueueError, TaskInfo};

/// What became of the rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Rows read.
    pub(crate) rows: usize,
    /// Tasks that this run enqueued.
    pub(crate) enqueued: usize,
    /// Rows whose address stands in an earlier row.
    pub(crate) duplicates: usize,
    /// Addresses that an earlier run enqueued and nobody has settled: `unique` refused a second task.
    pub(crate) left_over: usize,
    /// Addresses that an earlier run settled: the id is taken.
    pub(crate) already_done: usize,
    seen: HashSet<String>,
}

impl Tally {
    /// Counts the answer to the row whose task has this id.
    ///
    /// # Errors
    ///
    /// The answer is a failure, not a refusal: the row was not enqueued.
    pub(crate) fn count(&mut self, id: &str, answer: Result<TaskInfo, EnqueueError>) -> Result<(), EnqueueError> {
        let refusal = match answer {
            Ok(_) => None,
            Err(error) if error.is_duplicate() => Some(error),
            Err(error) => return Err(error),
        };
        self.rows += 1;
        let first = self.seen.insert(id.to_owned());
        match refusal {
            None => self.enqueued += 1,
            Some(_) if !first => self.duplicates += 1,
            Some(error) if error.is_id_conflict() => self.already_done += 1,
            Some(_) => self.left_over += 1,
        }
        Ok(())
    }

    /// How many tasks the campaign has, however often it was interrupted.
    pub(crate) fn tasks(&self) -> usize {
        self.rows - self.duplicates
    }
}
