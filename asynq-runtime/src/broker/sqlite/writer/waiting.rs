//! The calls that the writer has not done yet, and the choice of those that the next transaction takes.

use std::{collections::VecDeque, mem};

use super::super::command::{Command, Priority};

/// Most tasks in one transaction.
const MOST_ITEMS: usize = 256;

/// Calls in the order in which transactions take them.
///
/// Leases and beats go first: a task must not be taken from a living worker because others enqueue faster than the disk
/// commits. Calls for which the last transaction had no time are next, or a flood of inserts would starve them.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    leases: Vec<Command>,
    left_over: Vec<Command>,
    queue: VecDeque<Command>,
}

impl Waiting {
    pub(super) fn add(&mut self, work: Command) {
        if work.priority == Priority::Lease { self.leases.push(work) } else { self.queue.push_back(work) }
    }

    /// Takes back the calls for which a transaction had no time, the last ones that [`next`](Self::next) returned; in the next
    /// transaction only leases and beats come before them.
    pub(super) fn leave(&mut self, left_over: Vec<Command>) {
        self.left_over = left_over;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.leases.is_empty() && self.left_over.is_empty() && self.queue.is_empty()
    }

    /// Removes and returns the calls of the next transaction, those that are `ready` included. New calls are taken until there
    /// are [`MOST_ITEMS`] tasks, and sorted by their priority.
    pub(super) fn next(&mut self, mut ready: Vec<Command>) -> Vec<Command> {
        let mut batch = mem::take(&mut self.leases);
        batch.append(&mut self.left_over);
        let (new, mut items) = (batch.len(), batch.iter().map(|work| work.items).sum::<usize>());
        while items < MOST_ITEMS
            && let Some(work) = self.queue.pop_front()
        {
            items += work.items;
            batch.push(work);
        }
        batch.append(&mut ready);
        batch[new..].sort_by_key(|work| work.priority);
        batch
    }

    /// Removes and returns everything.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Command> {
        mem::take(&mut self.leases).into_iter().chain(mem::take(&mut self.left_over)).chain(mem::take(&mut self.queue))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::call, *};
    use crate::broker::sqlite::command::WriteCommand;

    fn work(priority: Priority, items: usize) -> Command {
        call(WriteCommand::new(priority, items, |_| Ok(()))).0
    }

    fn summary(batch: &[Command]) -> Vec<(Priority, usize)> {
        batch.iter().map(|work| (work.priority, work.items)).collect()
    }

    #[test]
    fn leases_go_first_then_leftover_commands_then_new_calls_by_priority() {
        let mut waiting = Waiting::default();
        for (priority, items) in [(Priority::Settle, 1), (Priority::Insert, 2), (Priority::Lease, 3)] {
            waiting.add(work(priority, items));
        }
        waiting.leave(vec![work(Priority::Claim, 4)]);
        let batch = waiting.next(vec![work(Priority::Claim, 5)]);
        let (lease, insert, settle) = ((Priority::Lease, 3), (Priority::Insert, 2), (Priority::Settle, 1));
        assert_eq!(summary(&batch), [lease, (Priority::Claim, 4), insert, settle, (Priority::Claim, 5)]);
        assert!(waiting.is_empty() && waiting.next(Vec::new()).is_empty());
    }

    #[test]
    fn a_lease_passes_ten_thousand_enqueues_and_a_batch_has_its_limit() {
        let mut waiting = Waiting::default();
        (0..100).for_each(|_| waiting.add(work(Priority::Insert, 100)));
        waiting.add(work(Priority::Lease, 64));
        let first = waiting.next(Vec::new());
        assert_eq!(summary(&first), [(Priority::Lease, 64), (Priority::Insert, 100), (Priority::Insert, 100)]);
        assert_eq!(waiting.next(Vec::new()).len(), 3);
        waiting.add(work(Priority::Lease, 1));
        assert_eq!(waiting.drain().count(), 96);
        assert!(waiting.is_empty());
    }
}
