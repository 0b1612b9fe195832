//! Remembers the queues whose dequeues passed quarantined tasks. Each queue has a script of its own, so no script can
//! hold a limit of one for all queues.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::super::Wanted;
use crate::task::QueueName;

/// Time for which a queue counts as one of quarantined tasks alone. Two changes between two looks could leave its
/// length unchanged.
pub(super) const TRUSTED_FOR: Duration = Duration::from_secs(1);

/// Time after which a queue that is not dequeued any more is forgotten: it may have been deleted. Each dequeue notes its queue anew.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// The queues whose last dequeue passed quarantined tasks.
#[derive(Debug, Default)]
pub(super) struct PassedQuarantine(Mutex<HashMap<QueueName, Passed>>);

#[derive(Debug)]
struct Passed {
    since: Instant,
    /// Number of quarantined tasks, if the queue had no others.
    alone: Option<i64>,
}

impl PassedQuarantine {
    /// Notes how many quarantined tasks a dequeue of `queue` passed, and whether no others were left.
    pub(super) fn note(&self, queue: &QueueName, passed: i64, is_all: bool) {
        let mut queues = self.0.lock();
        if passed > 0 {
            queues.retain(|_, passed| passed.since.elapsed() < KEPT_FOR);
            queues.insert(queue.clone(), Passed { since: Instant::now(), alone: is_all.then_some(passed) });
        } else if !queues.is_empty() {
            queues.remove(queue);
        }
    }

    /// Returns the queue that may give the one quarantined task: one that has some, or else the first.
    pub(super) fn next<'w>(&self, wanted: &'w [Wanted]) -> Option<&'w QueueName> {
        let queues = self.0.lock();
        let known = wanted.iter().find(|wanted| wanted.n > 0 && queues.contains_key(&wanted.queue));
        known.or(wanted.first()).map(|wanted| &wanted.queue)
    }

    /// Returns whether all `pending` tasks of a queue seem to be quarantined.
    pub(super) fn is_alone(&self, queue: &QueueName, pending: i64) -> bool {
        let mut queues = self.0.lock();
        let Some(Passed { since, alone: Some(alone) }) = queues.get_mut(queue) else { return false };
        // A shorter queue means that other servers took quarantined tasks, so the others count from now on.
        *alone = pending.min(*alone);
        pending == *alone && since.elapsed() < TRUSTED_FOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_task_comes_from_a_queue_that_has_some() {
        let passed = PassedQuarantine::default();
        let wanted = ["a", "b", "c"].map(|name| Wanted { queue: QueueName::from_wire(name), n: 1 });
        let next = || passed.next(&wanted).unwrap().as_str().to_owned();
        assert_eq!(next(), "a");
        passed.note(&wanted[2].queue, 3, false);
        assert_eq!(next(), "c");
        passed.note(&wanted[2].queue, 0, false);
        assert_eq!((next(), passed.next(&[])), ("a".to_owned(), None));
    }

    #[test]
    fn a_queue_that_is_not_dequeued_any_more_is_forgotten_with_the_next_one() {
        let (passed, [deleted, next]) = (PassedQuarantine::default(), ["a", "b"].map(QueueName::from_wire));
        passed.note(&deleted, 1, true);
        passed.0.lock().get_mut(&deleted).unwrap().since = Instant::now().checked_sub(KEPT_FOR).unwrap();
        passed.note(&next, 1, true);
        let queues = passed.0.lock();
        assert_eq!([&deleted, &next].map(|queue| queues.contains_key(queue)), [false, true]);
    }

    #[test]
    fn a_queue_counts_as_quarantined_until_it_grows() {
        let (passed, queue) = (PassedQuarantine::default(), QueueName::from_wire("q"));
        assert!(!passed.is_alone(&queue, 2));
        passed.note(&queue, 2, false);
        assert!(!passed.is_alone(&queue, 2), "something else is there");
        passed.note(&queue, 2, true);
        let seen = [2, 3, 2, 1, 2].map(|pending| passed.is_alone(&queue, pending));
        assert_eq!(seen, [true, false, true, true, false], "one that went was of them, one that came was not");
    }
}
