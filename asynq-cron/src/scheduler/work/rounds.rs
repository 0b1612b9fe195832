//! The scheduler's periodic work: it measures the broker's clock, lists its entries and reads the lists of other
//! schedulers.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::{
    broker::{BrokerError, EntryId, EntryState},
    task::SchedulerEntry,
};
use chrono::{DateTime, Utc};
use tokio::task::JoinSet;

use super::{
    super::{clock::Reading, listing},
    Event, Known, MOST_AT_ONCE, Origin, RETRY_UNAVAILABLE, RoundTrip, WARN_AGAIN, Work,
};
use crate::{Periodic, Schedule};

/// When each kind of periodic work is due.
pub(super) struct Timers {
    pub(super) show: Instant,
    pub(super) measure: Instant,
    pub(super) provide: Instant,
    /// When to look at the entries that living schedulers list.
    pub(super) list: Instant,
    /// When warnings that were written may be written again.
    pub(super) warn: Instant,
}

impl Timers {
    pub(super) fn new(ttl: Duration) -> Self {
        let now = Instant::now();
        Self { show: now, measure: now, provide: now, list: now + ttl, warn: now + WARN_AGAIN }
    }

    /// Sets the timers when the scheduler begins or ends to lead.
    pub(super) fn begin(&mut self, leads: bool, ttl: Duration) {
        let now = Instant::now();
        if leads {
            self.measure = now + ttl / 3;
            self.provide = now;
        }
        self.show = now;
        self.list = now + ttl;
    }
}

/// Whether `at` has come; if so, sets it to `every` from now.
pub(super) fn is_due(at: &mut Instant, now: Instant, every: Duration) -> bool {
    let due = *at <= now;
    if due {
        *at = now + every;
    }
    due
}

impl Work {
    /// Does the periodic work that is due.
    pub(super) fn run_due_timers(&mut self, now: Instant) {
        let ttl = self.settings.ttl;
        if is_due(&mut self.timers.warn, now, WARN_AGAIN) {
            self.logged.clear();
        }
        self.provide(now);
        self.is_planning_anew &= !self.all_is_planned(now);
        if !self.shows_plans && self.all_is_planned(now) {
            self.shows_plans = true;
            self.timers.show = now;
        }
        let is_on_a_list = |known: &Known| self.lists(known) || known.is_gone();
        if !self.showing && self.timers.show <= now && (self.is_listed || self.known.values().any(is_on_a_list)) {
            self.show(now);
        }
        let jumped = self.clock.has_jumped(Reading::now());
        if jumped {
            self.timers.measure = self.timers.measure.min(now);
        }
        if is_due(&mut self.timers.measure, now, if jumped { RETRY_UNAVAILABLE } else { ttl / 3 }) {
            self.measure();
        }
        // A leader plans an entry again soon after the list of a newer version that was killed has expired. A follower only
        // checks for entries that no scheduler lists.
        let every = if self.leads { ttl / 3 } else { ttl * 3 };
        let leads = self.leads;
        let is_looked_for = |known: &Known| if leads { known.newer.is_some() } else { known.origin == Origin::Program };
        if is_due(&mut self.timers.list, now, every) && self.known.values().any(is_looked_for) {
            let broker = Arc::clone(&self.broker);
            self.calls.spawn(async move { Event::Listed(broker.scheduler_entries().await) });
        }
    }

    /// Lists the entries of this scheduler while it leads: for asynq's tools, and for older programs, which do not plan these entries.
    /// Takes the scheduler off the list where it has none. One such call is under way at a time, because the broker may handle two
    /// in either order.
    fn show(&mut self, now: Instant) {
        let renew = now + self.settings.ttl / 2;
        self.timers.show = renew;
        let mut rows = self.plan.rows();
        let time = self.clock.at(Reading::now());
        let is_coming = |known: &&Known| self.lists(known) && !known.is_left() && !self.plan.has(known.entry.id());
        let coming = self.known.values().filter(is_coming).map(|known| &known.entry);
        rows.extend(coming.map(|entry| (Arc::clone(entry), None, entry.spec().next_after(time))));
        self.showing = true;
        self.is_listed = !rows.is_empty();
        let gone: Vec<_> = self.known.iter().filter(|(_, known)| known.is_gone()).map(|(id, _)| id.clone()).collect();
        let (broker, name, ttl) = (Arc::clone(&self.broker), self.name.clone(), self.settings.ttl);
        self.calls.spawn(async move {
            let has_worked = if rows.is_empty() {
                listing::withdraw(&*broker, &name).await
            } else {
                listing::show(broker, name, rows, ttl).await
            };
            Event::ListingDone(renew, has_worked, gone)
        });
    }

    /// The list was changed, or that failed; `renew` is when the list was due again as it began. The next one is due half a
    /// lease after this one has ended, because no entry is planned while a list is due or under way. A list that was asked for
    /// meanwhile is still made. Where that failed, the list may still have the entries that are gone: they are forgotten after the
    /// next one.
    pub(super) fn shown(&mut self, renew: Instant, has_worked: bool, gone: Vec<EntryId>) {
        // The broker may still list the entries, or may have listed them before it failed.
        self.is_listed |= !has_worked;
        self.showing = has_worked && !gone.is_empty();
        if self.showing {
            let broker = Arc::clone(&self.broker);
            self.calls.spawn(async move { Event::GoneListed(gone, broker.scheduler_entries().await) });
        }
        if self.timers.show == renew {
            self.timers.show = Instant::now() + self.settings.ttl / 2;
        }
    }

    /// Has those of the entries that are `gone` forgotten that no scheduler has listed for a third of a lease. An entry that a list still
    /// has is scheduled by another program too, which would lose its last tick, its pause and its history. One list does not tell: the
    /// leader of that program may just have stopped, and the next one may not have listed its entries yet.
    pub(super) fn forget_unlisted(&mut self, mut gone: Vec<EntryId>, listed: &[SchedulerEntry]) {
        let listed: HashSet<_> = listed.iter().map(|row| (row.id.as_str(), Schedule::queue_of(row))).collect();
        let (now, wait) = (Instant::now(), self.settings.ttl / 3);
        gone.retain(|id| {
            let Some(known) = self.known.get_mut(id).filter(|known| known.is_gone()) else { return false };
            if listed.contains(&(id.as_str(), known.entry.queue().clone())) {
                log!(info, "{} is not forgotten, because another scheduler lists it", known.entry);
                self.known.remove(id);
                return false;
            }
            now.saturating_duration_since(*known.unlisted_since.get_or_insert(now)) >= wait
        });
        self.forget_next(gone);
    }

    /// Forgets the next of the entries that are `gone`, unless the provider has returned them meanwhile: the broker may have taken long
    /// over the others. An entry that it has returned and dropped again waits for the next list, because none was read since then. Many are
    /// forgotten at once, because no entry is planned or listed until all are: one that the provider returns while the broker forgets it is
    /// planned afterwards, as a new one. One that the broker does not forget now is forgotten after the next list.
    pub(super) fn forget_next(&mut self, mut gone: Vec<EntryId>) {
        gone.retain(|id| self.known.get(id).is_some_and(|known| known.unlisted_since.is_some()));
        self.showing = !gone.is_empty();
        if !self.showing {
            return;
        }
        let batch = gone.split_off(gone.len().saturating_sub(MOST_AT_ONCE));
        let forget = |known: &Known| {
            let (broker, entry) = (Arc::clone(&self.broker), Arc::clone(&known.entry));
            async move {
                let forgotten = broker.forget_entry(entry.queue(), entry.id()).await;
                if let Err(error) = &forgotten {
                    log!(debug, "{entry} is forgotten later: {error}");
                }
                forgotten.ok().map(|()| entry.id().clone())
            }
        };
        let calls: JoinSet<Option<EntryId>> = batch.iter().filter_map(|id| self.known.get(id)).map(forget).collect();
        self.calls.spawn(async move { Event::Forgotten(calls.join_all().await.into_iter().flatten().collect(), gone) });
    }

    /// Asks for the broker's time, with the state of an entry: of each queue in turn the one whose tick was stored last. Also asks
    /// for each entry in turn: a program may have had it forgotten, and it could not be paused before its next tick.
    fn measure(&mut self) {
        let mut newest = self.plan.newest();
        if newest.is_empty() {
            newest.extend(self.planned_entries().next().map(|entry| (Arc::clone(entry), DateTime::<Utc>::MIN_UTC)));
        }
        if newest.is_empty() {
            return;
        }
        self.measured_queues = self.measured_queues.wrapping_add(1);
        let (entry, known) = newest.swap_remove(self.measured_queues % newest.len());
        let planned: Vec<_> = self.planned_entries().filter(|entry| self.plan.has(entry.id())).collect();
        let in_turn = planned.get(self.measured_queues % planned.len().max(1)).copied();
        let other = in_turn.filter(|other| other.id() != entry.id()).cloned();
        self.ask_for(entry, known);
        if let Some(other) = other {
            self.ask_for(other, DateTime::<Utc>::MIN_UTC);
        }
    }

    /// Asks for the state of an entry of which the broker has stored the tick `known`.
    fn ask_for(&mut self, entry: Arc<Periodic>, known: DateTime<Utc>) {
        let broker = Arc::clone(&self.broker);
        self.calls.spawn(async move {
            let before = Reading::now();
            let state = broker.entry(entry.queue(), entry.id()).await;
            Event::Measured(entry, known, state, RoundTrip { before, after: Reading::now() })
        });
    }

    pub(super) fn measured(
        &mut self,
        entry: Arc<Periodic>,
        known: DateTime<Utc>,
        state: Result<Option<EntryState>, BrokerError>,
        round_trip: &RoundTrip,
    ) {
        match state {
            Ok(Some(state)) => {
                self.clock_is(entry.queue(), state.now, round_trip);
                if state.last < known {
                    self.on_lost_writes();
                }
            }
            // The broker has lost the entry, or a program had it forgotten. All are planned again: it may have lost ticks of others,
            // of which an entry that begins anew would tell nothing.
            Ok(None) if self.known.get(entry.id()).is_some_and(|known| self.plans(known)) => self.plan_anew(),
            Ok(None) => {}
            Err(error) => log!(debug, "the broker's time is not known: {error}"),
        }
    }

    /// The broker lost acknowledged writes, for example in a failover. The entries are planned again from its state, and their
    /// policies decide about the lost ticks.
    pub(super) fn on_lost_writes(&mut self) {
        if !self.is_planning_anew {
            log!(warn, "the broker has lost ticks that it had stored; `missed` says what becomes of them");
        }
        self.plan_anew();
    }
}
