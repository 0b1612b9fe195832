//! Counts the answers to the rows when they are enqueued.

use std::collections::HashSet;

use asynq_runtime::prelude::{EnqueueError, TaskInfo};

/// The number of rows by outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Rows read.
    pub(crate) rows: usize,
    /// Tasks that this run enqueued.
    pub(crate) enqueued: usize,
    /// Rows whose address stands in an earlier row.
    pub(crate) duplicates: usize,
    /// Addresses that an earlier run enqueued and no run has settled.
    pub(crate) left_over: usize,
    /// Addresses that an earlier run settled.
    pub(crate) already_done: usize,
}

impl Tally {
    /// Returns how many tasks the campaign has, however often it was interrupted.
    pub(crate) fn tasks(&self) -> usize {
        self.rows - self.duplicates
    }
}

/// Counts answers row by row. A refusal, by the id or by the unique lock, says that a task of this address exists: of an earlier
/// row if this list has named the address before, and otherwise of an earlier run.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    rows: usize,
    enqueued: usize,
    seen: HashSet<String>,
}

impl Counting {
    /// Counts the answer to the row whose task has this id.
    ///
    /// # Errors
    ///
    /// The answer is a failure, not a refusal: the row was not enqueued.
    pub(crate) fn count(&mut self, id: &str, answer: Result<TaskInfo, EnqueueError>) -> Result<(), EnqueueError> {
        match answer {
            Ok(_) => self.enqueued += 1,
            Err(error) if error.is_duplicate() => {}
            Err(error) => return Err(error),
        }
        self.rows += 1;
        self.seen.insert(id.to_owned());
        Ok(())
    }

    /// Returns the sum, if `unsettled` tasks wait or run before this run has started any.
    pub(crate) fn sum(self, unsettled: usize) -> Tally {
        let tasks = self.seen.len();
        let left_over = unsettled.saturating_sub(self.enqueued).min(tasks - self.enqueued);
        Tally {
            rows: self.rows,
            enqueued: self.enqueued,
            duplicates: self.rows - tasks,
            left_over,
            already_done: tasks - self.enqueued - left_over,
        }
    }
}

#[cfg(test)]
mod tests {
    use asynq_runtime::{
        TaskId,
        broker::{BrokerError, BrokerErrorKind},
    };

    use super::*;

    fn duplicate() -> Result<TaskInfo, EnqueueError> {
        Err(EnqueueError::Duplicate { holder: None })
    }

    fn stored() -> Result<TaskInfo, EnqueueError> {
        Err(EnqueueError::IdConflict { queue: "newsletter".parse().unwrap(), id: TaskId::from_wire("a") })
    }

    #[test]
    fn a_refusal_is_a_duplicate_only_when_this_list_named_the_address_before() {
        let mut counting = Counting::default();
        for (id, answer) in [("a", duplicate()), ("b", stored()), ("a", stored()), ("c", stored()), ("c", duplicate())]
        {
            counting.count(id, answer).unwrap();
        }
        // Two of the three addresses still wait.
        let expected = Tally { rows: 5, enqueued: 0, duplicates: 2, left_over: 2, already_done: 1 };
        assert_eq!(counting.sum(2), expected);
        assert_eq!(expected.tasks(), 3);
    }

    #[test]
    fn a_broker_failure_is_not_a_refusal() {
        let away = BrokerError::new(BrokerErrorKind::Unavailable, "away");
        assert!(Counting::default().count("a", Err(EnqueueError::Broker(away))).is_err());
    }
}
