//! The calls that the writer has and has not done, and which of them the next transaction takes.

use std::{collections::VecDeque, mem};

use super::super::order::{Stage, Work};

/// Most tasks in one transaction.
const MOST_ITEMS: usize = 256;

/// Calls in the order in which transactions take them.
///
/// Leases and beats go first: a task must not be taken from a living worker because others enqueue faster than the disk
/// commits. What the last transaction had no time for is next, or a flood of inserts would starve it.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    leases: Vec<Box<dyn Work>>,
    left_over: Vec<Box<dyn Work>>,
    queue: VecDeque<Box<dyn Work>>,
}

impl Waiting {
    pub(super) fn add(&mut self, work: Box<dyn Work>) {
        if work.stage() == Stage::Lease { self.leases.push(work) } else { self.queue.push_back(work) }
    }

    /// Takes back what a transaction had no time for, the front of what [`next`](Self::next) returned last.
    pub(super) fn leave(&mut self, left_over: Vec<Box<dyn Work>>) {
        self.left_over = left_over;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.leases.is_empty() && self.left_over.is_empty() && self.queue.is_empty()
    }

    /// Removes and returns what the next transaction does, with the calls that are `ready`: at most [`MOST_ITEMS`] tasks and
    /// one call more. New ones are sorted by their stage.
    pub(super) fn next(&mut self, mut ready: Vec<Box<dyn Work>>) -> Vec<Box<dyn Work>> {
        let mut batch = mem::take(&mut self.leases);
        batch.append(&mut self.left_over);
        let (new, mut items) = (batch.len(), batch.iter().map(|work| work.items()).sum::<usize>());
        while items < MOST_ITEMS
            && let Some(work) = self.queue.pop_front()
        {
            items += work.items();
            batch.push(work);
        }
        batch.append(&mut ready);
        batch[new..].sort_by_key(|work| work.stage());
        batch
    }

    /// Removes and returns everything.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Box<dyn Work>> {
        mem::take(&mut self.leases).into_iter().chain(mem::take(&mut self.left_over)).chain(mem::take(&mut self.queue))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::call, *};
    use crate::broker::sqlite::order::Order;

    fn work(stage: Stage, items: usize) -> Box<dyn Work> {
        call(Order::new(stage, items, |_| Ok(()))).0
    }

    fn shown(batch: &[Box<dyn Work>]) -> Vec<(Stage, usize)> {
        batch.iter().map(|work| (work.stage(), work.items())).collect()
    }

    #[test]
    fn leases_go_first_then_what_was_left_over_then_new_calls_by_stage() {
        let mut waiting = Waiting::default();
        for (stage, items) in [(Stage::Settle, 1), (Stage::Insert, 2), (Stage::Lease, 3)] {
            waiting.add(work(stage, items));
        }
        waiting.leave(vec![work(Stage::Claim, 4)]);
        let batch = waiting.next(vec![work(Stage::Claim, 5)]);
        let (lease, insert, settle) = ((Stage::Lease, 3), (Stage::Insert, 2), (Stage::Settle, 1));
        assert_eq!(shown(&batch), [lease, (Stage::Claim, 4), insert, settle, (Stage::Claim, 5)]);
        assert!(waiting.is_empty() && waiting.next(Vec::new()).is_empty());
    }

    #[test]
    fn a_lease_passes_ten_thousand_enqueues_and_a_batch_has_its_limit() {
        let mut waiting = Waiting::default();
        (0..100).for_each(|_| waiting.add(work(Stage::Insert, 100)));
        waiting.add(work(Stage::Lease, 64));
        let first = waiting.next(Vec::new());
        assert_eq!(shown(&first), [(Stage::Lease, 64), (Stage::Insert, 100), (Stage::Insert, 100)]);
        assert_eq!(waiting.next(Vec::new()).len(), 3);
        waiting.add(work(Stage::Lease, 1));
        assert_eq!(waiting.drain().count(), 96);
        assert!(waiting.is_empty());
    }
}
