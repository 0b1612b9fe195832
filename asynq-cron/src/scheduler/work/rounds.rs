//! What a scheduler does every so often: asks the provider and the broker's clock, shows its entries, looks at others'.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::broker::{BrokerError, EntryState};

use super::{
    super::{clock::Reading, shown},
    Asked, Event, LATER, SOON, Work,
};
use crate::Periodic;

/// When what is done regularly is due.
pub(super) struct Timers {
    pub(super) show: Instant,
    pub(super) measure: Instant,
    pub(super) provide: Instant,
    list: Instant,
    /// When to compare the program's entries with those it had; `None` when that is done, or under way.
    pub(super) compare: Option<Instant>,
}

impl Timers {
    pub(super) fn new(ttl: Duration) -> Self {
        let now = Instant::now();
        Self { show: now, measure: now, provide: now, list: now + ttl, compare: None }
    }

    /// The scheduler begins or ends to lead.
    pub(super) fn begin(&mut self, leads: bool, ttl: Duration) {
        let now = Instant::now();
        if leads {
            self.measure = now + ttl / 3;
            self.compare = Some(now);
        } else {
            self.list = now + ttl;
            self.compare = None;
        }
    }

    pub(super) fn compared(&mut self, done: bool) {
        if !done {
            self.compare.get_or_insert(Instant::now() + LATER);
        }
    }
}

/// Whether `at` has come; it comes again after `every`.
fn is_due(at: &mut Instant, now: Instant, every: Duration) -> bool {
    let due = *at <= now;
    if due {
        *at = now + every;
    }
    due
}

impl Work {
    /// Does what is due.
    pub(super) fn go_round(&mut self, now: Instant) {
        let ttl = self.settings.ttl;
        if let Some(provider) = self.provider.clone()
            && is_due(&mut self.timers.provide, now, self.settings.sync_every)
        {
            self.calls.spawn(async move { Event::Provided((provider.0)().await) });
        }
        self.compare(now);
        if !self.planned.is_empty() && self.all_is_planned(now) && self.timers.show <= now {
            self.show(now);
        }
        let jumped = self.clock.has_jumped(Reading::now());
        if jumped {
            self.timers.measure = self.timers.measure.min(now);
        }
        if !self.planned.is_empty() && is_due(&mut self.timers.measure, now, if jumped { SOON } else { ttl / 3 }) {
            self.measure();
        }
        if !self.leads && self.settings.election && is_due(&mut self.timers.list, now, ttl) {
            self.list();
        }
    }

    /// Says in the log what a deploy or the provider changed, once all entries of the program are known.
    fn compare(&mut self, now: Instant) {
        let is_complete = self.provider.is_none() || self.dynamic.is_some();
        if !self.leads || !is_complete || self.timers.compare.is_none_or(|at| at > now) {
            return;
        }
        self.timers.compare = None;
        let entries = self.entries.values().map(Arc::clone).collect();
        let (broker, program) = (Arc::clone(&self.broker), self.settings.program.clone());
        self.calls.spawn(async move { Event::Compared(shown::compare(broker, program, entries).await) });
    }

    /// Lists what is planned for asynq's tools.
    fn show(&mut self, now: Instant) {
        let rows = self.plan.shown();
        if rows.is_empty() {
            return;
        }
        self.timers.show = now + self.settings.ttl / 2;
        let shown = shown::show(Arc::clone(&self.broker), self.name.clone(), rows, self.settings.ttl);
        self.calls.spawn(async move {
            shown.await;
            Event::Done
        });
    }

    /// Takes this scheduler off the list.
    pub(super) fn withdraw(&mut self) {
        let (broker, name) = (Arc::clone(&self.broker), self.name.clone());
        self.calls.spawn(async move {
            if let Err(error) = broker.withdraw_entries(&name).await {
                tracing::debug!("the entries are still listed, they disappear by themselves: {error}");
            }
            Event::Done
        });
    }

    /// Asks for the broker's time, with what is kept of some entry.
    fn measure(&mut self) {
        let Some(entry) = self.planned.iter().find_map(|id| self.entries.get(id)).cloned() else { return };
        let broker = Arc::clone(&self.broker);
        self.calls.spawn(async move {
            let before = Reading::now();
            let state = broker.entry(entry.queue(), entry.id()).await;
            Event::Measured(entry, state, Asked { before, after: Reading::now() })
        });
    }

    pub(super) fn measured(
        &mut self,
        entry: Arc<Periodic>,
        state: Result<Option<EntryState>, BrokerError>,
        asked: &Asked,
    ) {
        match state {
            Ok(Some(state)) => self.clock_is(state.now, asked),
            // It was forgotten: it is made known again, and the answer to that says the time.
            Ok(None) if self.planned.contains(entry.id()) => self.to_plan.push((Instant::now(), entry)),
            Ok(None) => {}
            Err(error) => tracing::debug!("the broker's time is not known: {error}"),
        }
    }

    /// Looks whose entries are listed.
    fn list(&mut self) {
        let broker = Arc::clone(&self.broker);
        self.calls.spawn(async move {
            let listed = broker.scheduler_entries().await;
            Event::Listed(listed.map(|entries| entries.into_iter().map(|entry| entry.id).collect()))
        });
    }
}
