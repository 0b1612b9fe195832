//! The entries that this scheduler plans: all entries of its program while it leads, except those that a newer program plans in
//! another way, as long as that program lists them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Instant,
};

use asynq_runtime::{
    broker::{BrokerError, EntryId, PlanChange, Planned},
    metrics,
    task::SchedulerEntry,
};

use super::{
    super::clock::Reading, COMPONENT, Event, MOST_AT_ONCE, Outranked, RETRY_OTHER, RETRY_UNAVAILABLE, RoundTrip,
    SEEN_MISSING, WarningTopic, Work,
};
use crate::{Periodic, Schedule};

impl Work {
    /// Plans all entries of the program while this scheduler leads, and none while it does not. Those of the provider wait for its
    /// first answer to the new leader.
    pub(super) fn reconcile(&mut self) {
        let waits = |id: &EntryId| {
            let is_dynamic = self.dynamic.as_ref().is_some_and(|dynamic| dynamic.contains_key(id));
            self.is_unconfirmed && is_dynamic
        };
        let mut wanted = HashSet::new();
        if self.leads {
            wanted.extend(self.entries.keys().filter(|id| !waits(id)).cloned());
        }
        for id in self.planned.difference(&wanted) {
            self.plan.remove(id);
        }
        let now = Instant::now();
        self.to_plan.retain(|(_, entry)| wanted.contains(entry.id()));
        for id in wanted.difference(&self.planned) {
            self.to_plan.extend(self.entries.get(id).map(|entry| (now, Arc::clone(entry))));
            self.timers.show = now;
        }
        if wanted.is_empty() && self.is_listed {
            self.timers.show = now;
        }
        self.planned = wanted;
    }

    /// Plans all entries again, to read the broker's state of them.
    pub(super) fn plan_anew(&mut self) {
        let now = Instant::now();
        let planned = self.planned.iter().filter_map(|id| self.entries.get(id));
        self.to_plan = planned.map(|entry| (now, Arc::clone(entry))).collect();
        self.is_planning_anew = true;
    }

    /// Plans the waiting entries once they are listed. An older program that finds a planned entry on no list assumes that its
    /// planner has stopped.
    pub(super) fn plan_entries(&mut self, now: Instant) {
        if self.showing || self.timers.show <= now {
            return;
        }
        let mut next = 0;
        while self.planning < MOST_AT_ONCE && next < self.to_plan.len() {
            if self.to_plan[next].0 > now {
                next += 1;
                continue;
            }
            let (_, entry) = self.to_plan.swap_remove(next);
            let broker = Arc::clone(&self.broker);
            let mut plan = entry.plan(self.clock.at(Reading::now()), self.settings.revision);
            plan.supersedes =
                self.outranked.get(entry.id()).filter(|newer| newer.is_over()).map(|newer| newer.revision);
            self.planning += 1;
            self.calls.spawn(async move {
                let before = Reading::now();
                let planned = broker.plan_entry(&plan).await;
                Event::Planned(entry, planned, RoundTrip { before, after: Reading::now() })
            });
        }
    }

    /// Whether every entry that can be planned has been.
    pub(super) fn all_is_planned(&self, now: Instant) -> bool {
        self.planning == 0 && self.to_plan.iter().all(|(at, _)| *at > now)
    }

    pub(super) fn planned(
        &mut self,
        entry: Arc<Periodic>,
        planned: Result<Planned, BrokerError>,
        round_trip: &RoundTrip,
    ) {
        // This scheduler does not plan the entry any more, or the entry has changed.
        let is_current = self.entries.get(entry.id()).is_some_and(|now| Arc::ptr_eq(now, &entry));
        if !is_current || !self.planned.contains(entry.id()) {
            return;
        }
        match planned {
            Ok(Planned { state, change }) => {
                self.clock_is(entry.queue(), state.now, round_trip);
                let schedule = (entry.spec().as_str(), entry.spec().zone().name());
                if state.revision > self.settings.revision && (state.spec.as_str(), state.zone.as_str()) != schedule {
                    self.yield_to_newer(entry, state.revision);
                    return;
                }
                self.on_success(WarningTopic::Plans);
                self.outranked.remove(entry.id());
                self.shows_plans = false;
                self.log(&entry, &change);
                self.last_ticks.record(entry.job(), state.last, state.now);
                self.plan.set(entry, &state);
            }
            Err(error) => {
                metrics::broker_failed(COMPONENT, error.kind());
                let again = if error.is_unavailable() { RETRY_UNAVAILABLE } else { RETRY_OTHER };
                self.warn_once(WarningTopic::Plans, format!("{entry} cannot be planned yet: {error}"));
                self.to_plan.push((Instant::now() + again, entry));
            }
        }
    }

    /// Logs the change that a plan made, after a deploy or by the provider.
    fn log(&self, entry: &Periodic, change: &PlanChange) {
        let program = &self.settings.program;
        match change {
            PlanChange::None => {}
            PlanChange::New => log!(info, %program, "schedule: + {entry}"),
            PlanChange::Replaced { spec, zone } => {
                let zone = if spec.contains("TZ=") || zone == "UTC" { String::new() } else { format!("TZ={zone} ") };
                log!(info, %program, "schedule: ~ {} {zone}{spec} → {}", entry.name(), entry.spec());
            }
        }
    }

    /// Leaves an entry to the newer version of the program that plans it in another way, as long as that version lists it.
    fn yield_to_newer(&mut self, entry: Arc<Periodic>, revision: u64) {
        self.warn_once(
            WarningTopic::NewerVersion,
            format!(
                "a newer program plans {entry} in another way; this program does not schedule it while the newer one \
                 runs"
            ),
        );
        self.plan.remove(entry.id());
        let now = Instant::now();
        self.timers.show = now;
        // The lists are a third of a lease apart, so that a further entry does not bring the next one forward.
        if self.outranked.is_empty() {
            self.timers.list = now;
        }
        self.outranked.insert(entry.id().clone(), Outranked { revision, missing: 0 });
    }

    /// Takes the entries of all schedulers that live.
    pub(super) fn listed(&mut self, listed: Vec<SchedulerEntry>) {
        let mut rows: HashMap<String, Vec<SchedulerEntry>> = HashMap::new();
        for row in listed {
            rows.entry(row.id.clone()).or_default().push(row);
        }
        let rows_of = |id: &EntryId| rows.get(id.as_str()).map_or(&[][..], Vec::as_slice);
        if self.leads {
            self.reclaim_outranked(rows_of);
        } else {
            self.warn_of_unlisted(rows_of);
        }
    }

    /// Plans entries by this program's schedule again that no newer program lists any more, because that program was rolled back
    /// or stopped.
    fn reclaim_outranked<'a>(&mut self, rows_of: impl Fn(&EntryId) -> &'a [SchedulerEntry]) {
        let now = Instant::now();
        for (id, newer) in self.outranked.iter_mut().filter(|(_, newer)| !newer.is_over()) {
            let Some(entry) = self.entries.get(id) else { continue };
            let is_ours =
                |row: &SchedulerEntry| row.spec == entry.spec().as_str() && Schedule::queue_of(row) == *entry.queue();
            newer.missing = if rows_of(id).iter().all(is_ours) { newer.missing + 1 } else { 0 };
            if newer.is_over() {
                log!(info, "the newer program that planned {entry} in another way is gone: this one's schedule counts");
                self.timers.show = now;
                self.to_plan.push((now, Arc::clone(entry)));
            }
        }
    }

    /// Warns of entries that no scheduler fires: the leader belongs to another program of the same name, or to a version that
    /// does not have these entries any more.
    fn warn_of_unlisted<'a>(&mut self, rows_of: impl Fn(&EntryId) -> &'a [SchedulerEntry]) {
        let dynamic = self.dynamic.as_ref();
        // The provider's last answer may be older than that of the leader's provider.
        let fixed = self.entries.iter().filter(|(id, _)| dynamic.is_none_or(|dynamic| !dynamic.contains_key(id)));
        let mut unlisted = HashMap::new();
        for (id, _) in fixed.filter(|(id, _)| rows_of(id).is_empty()) {
            let times = self.unlisted.get(id).map_or(1, |times| times.saturating_add(1));
            unlisted.insert(id.clone(), times);
        }
        self.unlisted = unlisted;
        let missing = self.unlisted.iter().filter(|(_, times)| **times == SEEN_MISSING);
        let missing: Vec<_> = missing.filter_map(|(id, _)| self.entries.get(id)).map(ToString::to_string).collect();
        for entry in missing {
            let program = &self.settings.program;
            let text = format!(
                "no scheduler fires {entry}: the leader of the program `{program}` does not have it. Where that is another \
                 program, give each a name of its own (`ASYNQ_PROGRAM`); where it is a newer version, this one is not fired \
                 any more"
            );
            self.warn_once(WarningTopic::Unlisted, text);
        }
    }
}
