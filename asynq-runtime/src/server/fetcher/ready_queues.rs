//! Keeps track of the queues that are worth asking.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use super::{
    super::queues::{MOST_QUEUES_PER_CALL, Open},
    Fetcher, Next,
};
use crate::{broker::BrokerError, task::QueueName};

/// A queue that gave few tasks, and fewer than it was asked for, counts as empty for this long, while others have work.
pub(super) const SHORT: Duration = Duration::from_millis(10);
/// After a look at many queues, so many times its duration is spent on fetches: looks take at most a tenth of the time.
const FETCHES: u32 = 9;
/// The next look comes after this time at the latest, however slowly the broker answers.
const LATEST: Duration = Duration::from_secs(1);
/// Up to so many queues are probed without a look first: a look, which finds those that have work, would not be cheaper.
const MANY: usize = 16;

/// A look at all queues.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// When the look ended.
    at: Instant,
    took: Duration,
}

impl Look {
    /// Returns a look that ends now and took no time, such as a wait that has returned the queues that have work.
    pub(super) fn now() -> Self {
        Self { at: Instant::now(), took: Duration::ZERO }
    }

    /// Returns whether it is too early for the next look, while tasks are fetched from the queues that are known to have work.
    fn is_fresh(self) -> bool {
        self.at.elapsed() < (self.took * FETCHES).clamp(SHORT, LATEST)
    }
}

impl Fetcher {
    /// Returns how many more slots this queue may take.
    pub(super) fn room_of(&self, queue: usize) -> usize {
        let running = || self.context.runs.running_of(&self.queues.names()[queue]);
        self.queues.limit(queue).map_or(usize::MAX, |limit| limit.saturating_sub(running()))
    }

    /// Asks the broker which queues are ready, and notes them. The question costs next to nothing where a broker knows that
    /// nothing has changed, so that empty queues, and a thousand tenants, do not cost a call each.
    pub(super) async fn look(&mut self, room: usize, next: Next) -> Result<(), BrokerError> {
        let is_few = self.queues.len() <= room.clamp(MANY, MOST_QUEUES_PER_CALL);
        if is_few && next == Next::Probe {
            self.short.fill(None);
            return Ok(());
        }
        let is_stale = |since: Instant| since.elapsed() >= SHORT;
        let checked: Vec<usize> = if !is_few {
            if next == Next::Fetch && self.looked.is_some_and(|look| look.is_fresh()) {
                return Ok(());
            }
            self.looked = Some(Look::now());
            self.all().collect()
        } else if self.short.iter().any(Option::is_none) {
            // Queues that were short a moment ago are left out as long as another has work. Otherwise a wait looks at all queues.
            self.all().filter(|&queue| self.short[queue].is_some_and(is_stale)).collect()
        } else {
            Vec::new()
        };
        let checked: Vec<usize> = self.with_room(checked).map(|open| open.queue).collect();
        if checked.is_empty() {
            return Ok(());
        }
        let began = Instant::now();
        let names: Vec<QueueName> = checked.iter().map(|&queue| self.queues.names()[queue].clone()).collect();
        let ready = self.context.answer(self.context.broker.ready(&names, self.quarantined())).await?;
        self.note_ready(checked, &ready);
        if !is_few {
            self.looked = Some(Look { at: Instant::now(), took: began.elapsed() });
        }
        Ok(())
    }

    /// Notes that of the `checked` queues those in `ready` have work, and that the others are empty.
    pub(super) fn note_ready(&mut self, checked: impl IntoIterator<Item = usize>, ready: &[QueueName]) {
        let now = Instant::now();
        checked.into_iter().for_each(|queue| self.short[queue] = Some(now));
        ready.iter().filter_map(|name| self.queues.position(name)).for_each(|queue| self.short[queue] = None);
    }

    /// Returns those of `queues` that may have work and may run more tasks.
    pub(super) fn open(&self, queues: impl IntoIterator<Item = usize>) -> impl Iterator<Item = Open> {
        self.with_room(queues.into_iter().filter(|&queue| self.short[queue].is_none()))
    }

    /// Returns those of `queues` that may run more tasks.
    pub(super) fn with_room(&self, queues: impl IntoIterator<Item = usize>) -> impl Iterator<Item = Open> {
        let queues = queues.into_iter().map(|queue| Open { queue, room: self.room_of(queue) });
        queues.filter(|open| open.room > 0)
    }

    /// Returns the positions of all queues.
    pub(super) fn all(&self) -> Range<usize> {
        0..self.queues.len()
    }
}
