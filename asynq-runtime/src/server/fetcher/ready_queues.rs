//! Which queues are worth asking.

use std::{
    collections::HashSet,
    ops::Range,
    time::{Duration, Instant},
};

use super::{
    super::queues::{MOST_ASKED, Open},
    Fetcher, Next,
};
use crate::{broker::BrokerError, task::QueueName};

/// A queue that gave less than it was asked for, and little, is taken as empty for this long, while others have work.
const SHORT: Duration = Duration::from_millis(10);
/// So many queues are asked one after the other before it is worth a question which of them have work.
const MANY: usize = 16;

impl Fetcher {
    /// Slots that this queue may take beside what it has.
    pub(super) fn room_of(&self, queue: usize) -> usize {
        let running = || self.context.runs.running_of(&self.queues.names()[queue]);
        self.queues.limit(queue).map_or(usize::MAX, |limit| limit.saturating_sub(running()))
    }

    /// Notes which queues are worth asking. Where they are more than one call can ask, one question tells, so that a
    /// thousand tenants do not cost a thousand calls.
    pub(super) async fn look(&mut self, room: usize, next: Next) -> Result<(), BrokerError> {
        let is_stale = |since: Instant| since.elapsed() >= SHORT;
        if self.queues.len() > room.clamp(MANY, MOST_ASKED) {
            if next == Next::Fetch && self.looked.is_some_and(|since| !is_stale(since)) {
                return Ok(());
            }
            let names = self.names_with_room();
            let ready = self.context.answer(self.context.broker.ready(&names, self.quarantined())).await?;
            self.only_these_are_open(ready);
        } else if next == Next::Probe {
            self.short.fill(None);
        } else if self.short.iter().any(Option::is_none) {
            // Queues that were short a moment ago are left out as long as another has work. Where none has, a wait looks at all.
            self.short.iter_mut().for_each(|short| *short = short.filter(|&since| !is_stale(since)));
        }
        Ok(())
    }

    /// Notes that the broker named these queues, and that there is nothing in the others.
    pub(super) fn only_these_are_open(&mut self, open: Vec<QueueName>) {
        let (open, now): (HashSet<QueueName>, _) = (open.into_iter().collect(), Instant::now());
        for (short, name) in self.short.iter_mut().zip(self.queues.names()) {
            *short = (!open.contains(name)).then_some(now);
        }
        self.looked = Some(now);
    }

    /// Those of `queues` that may have work and may run more.
    pub(super) fn open(&self, queues: impl IntoIterator<Item = usize>) -> impl Iterator<Item = Open> {
        self.with_room(queues.into_iter().filter(|&queue| self.short[queue].is_none()))
    }

    /// Those of `queues` that may run more tasks.
    pub(super) fn with_room(&self, queues: impl IntoIterator<Item = usize>) -> impl Iterator<Item = Open> {
        let queues = queues.into_iter().map(|queue| Open { queue, room: self.room_of(queue) });
        queues.filter(|open| open.room > 0)
    }

    /// The names of all that may run more tasks.
    pub(super) fn names_with_room(&self) -> Vec<QueueName> {
        self.with_room(self.all()).map(|open| self.queues.names()[open.queue].clone()).collect()
    }

    /// Every queue.
    pub(super) fn all(&self) -> Range<usize> {
        0..self.queues.len()
    }
}
