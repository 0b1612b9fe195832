//! The entries that this scheduler plans: all entries of its program while it leads, except those that a newer program plans in
//! another way, as long as that program lists them.

use std::{collections::HashMap, sync::Arc, time::Instant};

use asynq_runtime::{
    broker::{BrokerError, EntryId, PlanChange, Planned},
    metrics,
    task::SchedulerEntry,
};

use super::{
    super::clock::Reading, COMPONENT, Event, Known, MOST_AT_ONCE, Origin, RETRY_OTHER, RETRY_UNAVAILABLE, RoundTrip,
    SEEN_MISSING, WarningTopic, Work,
};
use crate::{Periodic, Schedule};

impl Work {
    /// Returns whether this scheduler has an entry on its list: while it leads, each that is valid and not gone, also those that wait for
    /// the provider. Another program would have an entry forgotten that no list has.
    pub(super) fn lists(&self, known: &Known) -> bool {
        self.leads && matches!(known.origin, Origin::Program | Origin::Provider)
    }

    /// Returns whether this scheduler plans an entry, or leaves it to a newer program. Those of the provider wait for its first answer
    /// to the new leader.
    pub(super) fn plans(&self, known: &Known) -> bool {
        self.lists(known) && !(self.is_unconfirmed && known.origin == Origin::Provider)
    }

    /// Returns the entries that this scheduler plans.
    pub(super) fn planned_entries(&self) -> impl Iterator<Item = &Arc<Periodic>> {
        self.known.values().filter(move |known| self.plans(known)).map(|known| &known.entry)
    }

    /// Plans the entries that wait, each once it is listed. One whose plan the broker refused keeps its pause.
    pub(super) fn plan_waiting(&mut self) {
        let now = Instant::now();
        // Of the times of an entry the earliest counts.
        let planned = std::mem::take(&mut self.to_plan).into_iter().rev();
        let at: HashMap<EntryId, Instant> = planned.map(|(at, id)| (id, at)).collect();
        let waiting = self.known.iter().filter(|(_, known)| known.waits && self.plans(known));
        self.to_plan = waiting.map(|(id, _)| (at.get(id).copied().unwrap_or(now), id.clone())).collect();
    }

    /// Plans all entries again, to read the broker's state of them.
    pub(super) fn plan_anew(&mut self) {
        self.known.values_mut().for_each(|known| known.waits = true);
        self.is_planning_anew = true;
        self.to_plan.clear();
        self.plan_waiting();
    }

    /// Plans an entry at this time.
    pub(super) fn plan_at(&mut self, at: Instant, id: &EntryId) {
        if let Some(known) = self.known.get_mut(id) {
            known.waits = true;
            self.to_plan.insert((at, id.clone()));
        }
    }

    /// Plans the waiting entries once they are listed. An older program that finds a planned entry on no list assumes that its
    /// planner has stopped.
    pub(super) fn plan_entries(&mut self, now: Instant) {
        if self.showing || self.timers.show <= now {
            return;
        }
        while self.planning < MOST_AT_ONCE
            && self.to_plan.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, id)) = self.to_plan.pop_first()
        {
            let Some(known) = self.known.get(&id).filter(|known| known.waits && self.plans(known)) else { continue };
            let (broker, entry) = (Arc::clone(&self.broker), Arc::clone(&known.entry));
            let mut plan = entry.plan(self.clock.at(Reading::now()), self.settings.revision);
            plan.supersedes = known.superseded();
            if let Some(known) = self.known.get_mut(&id) {
                known.waits = false;
            }
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
        self.planning == 0 && self.to_plan.first().is_none_or(|(at, _)| *at > now)
    }

    pub(super) fn planned(
        &mut self,
        entry: Arc<Periodic>,
        planned: Result<Planned, BrokerError>,
        round_trip: &RoundTrip,
    ) {
        // This scheduler does not plan the entry any more, or the entry has changed.
        let is_current = |known: &Known| self.plans(known) && Arc::ptr_eq(&known.entry, &entry);
        if !self.known.get(entry.id()).is_some_and(is_current) {
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
                self.on_success(&WarningTopic::Plans(entry.id().clone()));
                self.set_newer(entry.id(), None);
                self.shows_plans = false;
                self.log(&entry, &change);
                self.last_ticks.record(entry.job(), state.last, state.now);
                self.plan.set(entry, &state);
            }
            Err(error) => {
                metrics::broker_failed(COMPONENT, error.kind());
                let again = if error.is_unavailable() { RETRY_UNAVAILABLE } else { RETRY_OTHER };
                let topic = WarningTopic::Plans(entry.id().clone());
                self.warn_once(topic, format!("{entry} cannot be planned yet: {error}"));
                self.plan_at(Instant::now() + again, entry.id());
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
        if self.known.values().all(|known| known.newer.is_none()) {
            self.timers.list = now;
        }
        self.set_newer(entry.id(), Some(revision));
    }

    fn set_newer(&mut self, id: &EntryId, newer: Option<u64>) {
        if let Some(known) = self.known.get_mut(id) {
            (known.newer, known.missing) = (newer, 0);
        }
    }

    /// Takes the entries of all schedulers that live.
    pub(super) fn listed(&mut self, listed: Vec<SchedulerEntry>) {
        let mut rows: HashMap<String, Vec<SchedulerEntry>> = HashMap::new();
        for row in listed {
            rows.entry(row.id.clone()).or_default().push(row);
        }
        let rows_of = |id: &EntryId| rows.get(id.as_str()).map_or(&[][..], Vec::as_slice);
        if self.leads {
            self.reclaim(rows_of);
        } else if !rows.is_empty() {
            // Without a row it is the leader's list that is missing: on a cluster it may lie on another master than the lead, and expires
            // where that one takes no writes.
            self.warn_of_unlisted(rows_of);
        }
    }

    /// Plans entries by this program's schedule again that no newer program lists any more, because that program was rolled back
    /// or stopped.
    fn reclaim<'a>(&mut self, rows_of: impl Fn(&EntryId) -> &'a [SchedulerEntry]) {
        let now = Instant::now();
        for (id, known) in self.known.iter_mut().filter(|(_, known)| known.is_left()) {
            let entry = &known.entry;
            let is_ours =
                |row: &SchedulerEntry| row.spec == entry.spec().as_str() && Schedule::queue_of(row) == *entry.queue();
            known.missing = if rows_of(id).iter().all(is_ours) { known.missing + 1 } else { 0 };
            if !known.is_left() {
                log!(info, "the newer program that planned {entry} in another way is gone: this one's schedule counts");
                self.timers.show = now;
                known.waits = true;
                self.to_plan.insert((now, id.clone()));
            }
        }
    }

    /// Warns of entries that no scheduler fires: the leader belongs to another program of the same name, or to a version that
    /// does not have these entries any more.
    fn warn_of_unlisted<'a>(&mut self, rows_of: impl Fn(&EntryId) -> &'a [SchedulerEntry]) {
        let mut missing = Vec::new();
        // The provider's last answer may be older than that of the leader's provider.
        for (id, known) in self.known.iter_mut().filter(|(_, known)| known.origin == Origin::Program) {
            known.missing = if rows_of(id).is_empty() { known.missing.saturating_add(1) } else { 0 };
            if known.missing == SEEN_MISSING {
                missing.push(known.entry.to_string());
            }
        }
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
