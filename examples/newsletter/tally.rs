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
}

impl Tally {
    /// How many tasks the campaign has, however often it was interrupted.
    pub(crate) fn tasks(&self) -> usize {
        self.rows - self.duplicates
    }
}

/// Fills a [`Tally`] in, row by row. A refusal says that a task is there, not whose: whether this list named it before is
/// what `seen` knows.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    tally: Tally,
    seen: HashSet<String>,
}

impl Counting {
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
        self.tally.rows += 1;
        let first = self.seen.insert(id.to_owned());
        match refusal {
            None => self.tally.enqueued += 1,
            Some(_) if !first => self.tally.duplicates += 1,
            Some(error) if error.is_id_conflict() => self.tally.already_done += 1,
            Some(_) => self.tally.left_over += 1,
        }
        Ok(())
    }

    pub(crate) fn done(self) -> Tally {
        self.tally
    }
}

#[cfg(test)]
mod tests {
    use asynq_runtime::{TaskId, broker::BrokerError, broker::BrokerErrorKind};

    use super::*;

    fn held() -> Result<TaskInfo, EnqueueError> {
        Err(EnqueueError::Duplicate { holder: None })
    }

    fn taken() -> Result<TaskInfo, EnqueueError> {
        Err(EnqueueError::IdConflict { queue: "newsletter".parse().unwrap(), id: TaskId::from_wire("a") })
    }

    #[test]
    fn a_refusal_is_a_duplicate_only_when_this_list_named_the_address_before() {
        let mut counting = Counting::default();
        for (id, answer) in [("a", held()), ("b", taken()), ("a", held()), ("b", taken()), ("b", held())] {
            counting.count(id, answer).unwrap();
        }
        let expected = Tally { rows: 5, left_over: 1, already_done: 1, duplicates: 3, ..Tally::default() };
        assert_eq!(counting.done(), expected);
        assert_eq!(expected.tasks(), 2);
    }

    #[test]
    fn a_broker_that_fails_is_no_refusal() {
        let away = BrokerError::new(BrokerErrorKind::Unavailable, "away");
        assert!(Counting::default().count("a", Err(EnqueueError::Broker(away))).is_err());
    }
}
