//! Which entries this scheduler plans: all that its program has while it leads, and those that would else be nobody's.

use std::{collections::HashSet, sync::Arc, time::Instant};

use asynq_runtime::broker::{BrokerError, EntryId, EntryState};

use super::{super::clock::Reading, About, Asked, Event, LATER, MOST_AT_ONCE, SOON, Work};
use crate::Periodic;

/// So often in a row nobody lists an entry before a follower takes it for nobody's.
const SEEN_MISSING: u32 = 2;

impl Work {
    /// Plans what should be planned, and nothing else.
    pub(super) fn reconcile(&mut self) {
        let wanted: HashSet<EntryId> = if self.leads {
            self.entries.keys().cloned().collect()
        } else {
            let missing = self.orphans.iter().filter(|(_, times)| **times >= SEEN_MISSING);
            missing.map(|(id, _)| id.clone()).collect()
        };
        for id in self.planned.difference(&wanted) {
            self.plan.remove(id);
        }
        let now = Instant::now();
        self.to_plan.retain(|(_, entry)| wanted.contains(entry.id()));
        for id in wanted.difference(&self.planned) {
            self.to_plan.extend(self.entries.get(id).map(|entry| (now, Arc::clone(entry))));
        }
        if wanted.is_empty() && !self.planned.is_empty() {
            self.withdraw();
        }
        self.planned = wanted;
    }

    /// Asks the broker again what it keeps of everything that is planned.
    pub(super) fn plan_anew(&mut self) {
        let now = Instant::now();
        let planned = self.planned.iter().filter_map(|id| self.entries.get(id));
        self.to_plan = planned.map(|entry| (now, Arc::clone(entry))).collect();
    }

    /// Makes the entries known that are to be planned.
    pub(super) fn plan_entries(&mut self, now: Instant) {
        let mut waiting = Vec::new();
        for (at, entry) in std::mem::take(&mut self.to_plan) {
            if at > now || self.calls.len() >= MOST_AT_ONCE {
                waiting.push((at, entry));
                continue;
            }
            let (broker, revision) = (Arc::clone(&self.broker), self.settings.revision);
            let plan = entry.plan(self.clock.at(Reading::now()), revision);
            self.planning += 1;
            self.calls.spawn(async move {
                let before = Reading::now();
                let state = broker.plan_entry(&plan).await;
                Event::Planned(entry, state, Asked { before, after: Reading::now() })
            });
        }
        self.to_plan = waiting;
    }

    /// Whether the broker has been told of everything that can be planned.
    pub(super) fn all_is_planned(&self, now: Instant) -> bool {
        self.planning == 0 && self.to_plan.iter().all(|(at, _)| *at > now)
    }

    pub(super) fn planned(&mut self, entry: Arc<Periodic>, state: Result<EntryState, BrokerError>, asked: &Asked) {
        // Not ours to plan any more, or changed meanwhile.
        let is_current = self.entries.get(entry.id()).is_some_and(|now| Arc::ptr_eq(now, &entry));
        if !is_current || !self.planned.contains(entry.id()) {
            return;
        }
        match state {
            Ok(state) => {
                self.clock_is(state.now, asked);
                let plan = entry.plan(state.now, self.settings.revision);
                if state.revision > self.settings.revision && (&state.spec, &state.zone) != (&plan.spec, &plan.zone) {
                    self.stand_back(entry);
                    return;
                }
                self.goes_well(About::Plans);
                self.plan.set(entry, &state);
            }
            Err(error) => {
                let again = if error.is_unavailable() { SOON } else { LATER };
                self.tell_once(About::Plans, format!("{entry} cannot be planned yet: {error}"));
                self.to_plan.push((Instant::now() + again, entry));
            }
        }
    }

    /// Leaves an entry to the newer version of the program that plans it in another way.
    pub(super) fn stand_back(&mut self, entry: Arc<Periodic>) {
        self.tell_once(
            About::NewerVersion,
            format!("a newer program plans {entry} in another way; this one leaves it alone"),
        );
        self.plan.remove(entry.id());
        self.to_plan.push((Instant::now() + LATER, entry));
    }

    /// Takes over those entries that were seen to be on nobody's list: the leader may be of a program that has the same
    /// name and other entries, or of a version that has them no more.
    pub(super) fn listed(&mut self, listed: &HashSet<String>) {
        if self.leads {
            return;
        }
        for (id, entry) in &self.entries {
            if self.planned.contains(id) {
                continue;
            }
            if listed.contains(id.as_str()) {
                self.orphans.remove(id);
                continue;
            }
            let times = self.orphans.entry(id.clone()).or_insert(0);
            *times += 1;
            if self.dynamic.as_ref().is_some_and(|dynamic| dynamic.contains_key(id)) {
                // The leader may have heard before us that it is gone.
                self.timers.provide = Instant::now();
            }
            if *times == SEEN_MISSING {
                tracing::info!("nobody else schedules {entry}: this scheduler does, though it does not lead");
            }
        }
        self.reconcile();
    }
}
