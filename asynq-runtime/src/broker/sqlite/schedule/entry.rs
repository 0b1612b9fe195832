//! The row of a periodic entry, and how a program's plan changes it.

use rusqlite::params;

use crate::{
    broker::{EntryId, EntryPlan, EntryState, PlanChange},
    task::{QueueName, TaskId},
};

use super::{
    super::{sql, tx::View},
    CLOCK_WENT_BACK_MS, after, instant,
};

/// A row of `cron`; the time until which it is kept follows from the plan that writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredEntry {
    pub(super) spec: String,
    pub(super) zone: String,
    pub(super) revision: u64,
    /// Unix milliseconds.
    pub(super) last: i64,
    pub(super) previous: Option<String>,
    pub(super) paused: bool,
}

impl StoredEntry {
    /// Returns a new entry.
    pub(super) fn new(plan: &EntryPlan, last: i64) -> Self {
        Self {
            spec: plan.spec.clone(),
            zone: plan.zone.clone(),
            revision: plan.revision,
            last,
            previous: None,
            paused: false,
        }
    }

    /// Whether the entry was written before the clock went back.
    pub(super) fn is_ahead(&self, now: i64) -> bool {
        self.last > now.saturating_add(CLOCK_WENT_BACK_MS)
    }

    /// Finds an entry, if it is known.
    pub(super) fn find(view: &View<'_>, queue: &QueueName, entry: &EntryId) -> rusqlite::Result<Option<Self>> {
        view.find(&sql::schedule::ENTRY, params![queue.as_str(), entry.as_str(), view.now], |row| {
            Ok(Self {
                spec: row.get(0)?,
                zone: row.get(1)?,
                revision: row.get::<_, i64>(2)?.cast_unsigned(),
                last: row.get(3)?,
                previous: row.get(4)?,
                paused: row.get(5)?,
            })
        })
    }

    /// Keeps the entry for as long as the plan says.
    pub(super) fn write(&self, view: &View<'_>, plan: &EntryPlan) -> rusqlite::Result<()> {
        view.execute(
            &sql::schedule::KEEP,
            params![
                plan.queue.as_str(),
                plan.entry.as_str(),
                self.spec,
                self.zone,
                self.revision.cast_signed(),
                self.last,
                self.previous,
                self.paused,
                after(view.now, plan.keep),
            ],
        )?;
        Ok(())
    }

    /// Whether the entry has the schedule of `plan`.
    pub(super) fn is_planned_as(&self, plan: &EntryPlan) -> bool {
        self.spec == plan.spec && self.zone == plan.zone
    }

    /// Returns the entry as callers see it.
    pub(super) fn into_state(self, now: i64) -> EntryState {
        EntryState {
            spec: self.spec,
            zone: self.zone,
            revision: self.revision,
            last: instant(self.last),
            previous: self.previous.as_deref().map(TaskId::from_wire),
            paused: self.paused,
            now: instant(now),
        }
    }
}

/// Whether the plan of a newer program counts, and not `plan`.
pub(super) fn is_outranked(before: Option<&StoredEntry>, plan: &EntryPlan) -> bool {
    before.is_some_and(|before| plan.revision < before.revision && plan.supersedes != Some(before.revision))
}

/// Returns the entry that is kept from now on under `plan`, and how its schedule changes.
pub(super) fn planned(before: Option<&StoredEntry>, plan: &EntryPlan, now: i64) -> (StoredEntry, PlanChange) {
    let Some(before) = before else { return (StoredEntry::new(plan, now), PlanChange::New) };
    let last = if before.is_ahead(now) { now } else { before.last };
    if is_outranked(Some(before), plan) {
        return (StoredEntry { last, ..before.clone() }, PlanChange::None);
    }
    let (last, change) = if before.is_planned_as(plan) {
        (last, PlanChange::None)
    } else {
        (now, PlanChange::Replaced { spec: before.spec.clone(), zone: before.zone.clone() })
    };
    let (previous, paused) = (before.previous.clone(), before.paused);
    (StoredEntry { previous, paused, ..StoredEntry::new(plan, last) }, change)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_newer_plan_replaces_an_older_one_and_a_new_schedule_starts_now() {
        let plan = |spec: &str, zone: &str, revision| EntryPlan {
            queue: QueueName::from_wire("q"),
            entry: EntryId::from_wire("e"),
            spec: spec.into(),
            zone: zone.into(),
            revision,
            supersedes: None,
            keep: Duration::from_secs(1),
        };
        let new = plan("a", "UTC", 3);
        assert_eq!(planned(None, &new, 70), (StoredEntry::new(&new, 70), PlanChange::New));
        let before = StoredEntry { previous: Some("t".into()), paused: true, ..StoredEntry::new(&new, 50) };
        let stored = |spec: &str, zone: &str, revision, last| StoredEntry {
            last,
            previous: Some("t".into()),
            paused: true,
            ..StoredEntry::new(&plan(spec, zone, revision), 0)
        };
        let replaced = || PlanChange::Replaced { spec: "a".into(), zone: "UTC".into() };
        for (spec, zone, revision, supersedes, expected) in [
            ("a", "UTC", 3, None, (before.clone(), PlanChange::None)),
            ("a", "UTC", 4, None, (stored("a", "UTC", 4, 50), PlanChange::None)),
            ("b", "UTC", 3, None, (stored("b", "UTC", 3, 70), replaced())),
            ("a", "CET", 4, None, (stored("a", "CET", 4, 70), replaced())),
            ("a", "UTC", 2, None, (before.clone(), PlanChange::None)),
            ("b", "UTC", 2, None, (before.clone(), PlanChange::None)),
            // The newer program is gone, and in the last case another program than this newer one is gone.
            ("b", "UTC", 2, Some(3), (stored("b", "UTC", 2, 70), replaced())),
            ("a", "UTC", 2, Some(3), (stored("a", "UTC", 2, 50), PlanChange::None)),
            ("b", "UTC", 2, Some(4), (before.clone(), PlanChange::None)),
        ] {
            let plan = EntryPlan { supersedes, ..plan(spec, zone, revision) };
            assert_eq!(planned(Some(&before), &plan, 70), expected, "{spec} {zone} {revision} {supersedes:?}");
        }
        // After the clock went back, the last tick is now, for an older program, too.
        let ahead = StoredEntry { last: 70 + CLOCK_WENT_BACK_MS + 1, ..before.clone() };
        for revision in [2, 3] {
            let (stored, _) = planned(Some(&ahead), &plan("a", "UTC", revision), 70);
            assert_eq!(stored, StoredEntry { last: 70, ..before.clone() }, "{revision}");
        }
        let in_time = StoredEntry { last: 70 + CLOCK_WENT_BACK_MS, ..before };
        assert_eq!(planned(Some(&in_time), &plan("a", "UTC", 3), 70).0, in_time);
    }
}
