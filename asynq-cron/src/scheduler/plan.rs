//! The entries of a scheduler by the time when each is due next, in the broker's time. This module reads no clock and calls no
//! broker.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use asynq_runtime::{
    broker::{EntryId, EntryState},
    metrics::{self, TickOutcome},
};
use chrono::{DateTime, TimeDelta, Utc};

use crate::{
    Periodic,
    missed::{Fire, due, is_on_time},
};

/// The first pause after a failure; each further one is twice as long.
const FIRST_PAUSE: TimeDelta = TimeDelta::milliseconds(100);
const LONGEST_PAUSE: TimeDelta = TimeDelta::seconds(5);

/// The entries, and when each needs attention.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    rows: HashMap<EntryId, Row>,
    agenda: BTreeSet<(DateTime<Utc>, EntryId)>,
}

#[derive(Debug)]
struct Row {
    periodic: Arc<Periodic>,
    /// The last tick that is settled, or passed over by policy.
    last: DateTime<Utc>,
    /// The last tick that the broker is known to have stored.
    stored: DateTime<Utc>,
    /// The last tick that enqueued a task, as asynq's tools show it.
    previous: Option<DateTime<Utc>>,
    /// The ticks to send before later ones are computed; the first may be under way.
    fires: VecDeque<Fire>,
    /// How often in a row a tick of the entry could not be sent.
    failures: u32,
    /// The last tick that was sent without an answer.
    unanswered: Option<DateTime<Utc>>,
    /// Whether the last tick that came due could not be fired: then the list goes on to show it as the next, or the first
    /// of several in a row. One alone is shown until policy passes it over.
    is_unfired: bool,
    /// When the entry needs attention; `None` while a tick is under way, and when the schedule has no later tick.
    wake: Option<DateTime<Utc>>,
}

/// An entry with its last and its next tick.
pub(crate) type ListingRow = (Arc<Periodic>, Option<DateTime<Utc>>, Option<DateTime<Utc>>);

/// The result of sending a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The tick enqueued its task.
    Enqueued,
    /// The tick enqueued no task: it had been fired, was paused, overlapped or was refused.
    Settled,
    /// The task of the tick could not be made; the broker was not asked.
    Invalid,
    /// The broker's clock says that it is too early.
    Early,
    /// No answer, or an error; whether the tick fired is unknown.
    Failed,
}

impl Plan {
    /// Adds an entry, or starts it anew; `state` is the broker's state of it, whose last tick is never in the future.
    pub(crate) fn set(&mut self, periodic: Arc<Periodic>, state: &EntryState) {
        let id = periodic.id().clone();
        self.remove(&id);
        let last = state.last;
        let previous = state.previous.as_ref().and_then(|task| periodic.id().tick_of(task));
        self.rows.insert(
            id.clone(),
            Row {
                periodic,
                last,
                stored: last,
                previous,
                fires: VecDeque::new(),
                failures: 0,
                unanswered: None,
                is_unfired: false,
                wake: None,
            },
        );
        self.wake(&id, None);
    }

    /// Forgets an entry.
    pub(crate) fn remove(&mut self, id: &EntryId) {
        if let Some(wake) = self.rows.remove(id).and_then(|row| row.wake) {
            self.agenda.remove(&(wake, id.clone()));
        }
    }

    /// Returns, for each queue, the entry whose last tick was stored last, with that tick. A broker that loses writes loses the
    /// newest ones, so one that still has this tick has them all.
    pub(crate) fn newest(&self) -> Vec<(Arc<Periodic>, DateTime<Utc>)> {
        let mut newest = BTreeMap::new();
        for row in self.rows.values() {
            let known = newest.entry(row.periodic.queue().as_str()).or_insert(row);
            if (known.stored, known.periodic.id()) < (row.stored, row.periodic.id()) {
                *known = row;
            }
        }
        newest.into_values().map(|row| (Arc::clone(&row.periodic), row.stored)).collect()
    }

    /// Whether the plan has the entry.
    pub(crate) fn has(&self, id: &EntryId) -> bool {
        self.rows.contains_key(id)
    }

    /// Whether the tick of the entry that is sent now was sent before and failed.
    pub(crate) fn has_failed(&self, id: &EntryId) -> bool {
        self.rows.get(id).is_some_and(|row| row.fires.front().is_some_and(|fire| Some(fire.at) == row.unanswered))
    }

    /// When the next entry needs attention.
    pub(crate) fn next(&self) -> Option<DateTime<Utc>> {
        self.agenda.first().map(|&(wake, _)| wake)
    }

    /// Returns at most `most` ticks to send now, one per entry, each with the last tick of its entry that the broker is known to
    /// have stored; each must be [`answered`](Self::answered).
    pub(crate) fn take(&mut self, now: DateTime<Utc>, most: usize) -> Vec<(Arc<Periodic>, Fire, DateTime<Utc>)> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some((wake, id)) = self.agenda.pop_first()
        {
            if wake > now {
                self.agenda.insert((wake, id));
                break;
            }
            let Some(row) = self.rows.get_mut(&id) else { continue };
            row.wake = None;
            // A tick that the broker refused until it was late is a missed one. Whether it fired is unknown; the broker knows.
            let is_late = |fire: &Fire| !is_on_time(row.periodic.spec(), fire.at, now);
            if row.failures > 0 && row.fires.front().is_some_and(is_late) {
                row.fires.clear();
                row.is_unfired = true;
            }
            if row.fires.is_empty() {
                let due = due(row.periodic.spec(), row.periodic.missed, row.last, now);
                row.fires = due.fires;
                if row.fires.is_empty() {
                    // After two in a row the list shows the first: the entry does not fire.
                    row.is_unfired &= row.stored < row.last;
                    row.last = due.newest.unwrap_or(row.last);
                    metrics::ticks(row.periodic.job(), TickOutcome::Missed, due.passed_over);
                }
            }
            match row.fires.front() {
                Some(&fire) => taken.push((Arc::clone(&row.periodic), fire, row.stored)),
                None => self.wake(&id, None),
            }
        }
        taken
    }

    /// Takes the result of a tick that was taken.
    pub(crate) fn answered(&mut self, id: &EntryId, fire: Fire, sent: Sent, now: DateTime<Utc>) {
        let Some(row) = self.rows.get_mut(id) else { return };
        // The entry was replaced meanwhile.
        if row.wake.is_some() || row.fires.front() != Some(&fire) {
            return;
        }
        let wake = match sent {
            Sent::Enqueued | Sent::Settled | Sent::Invalid => {
                row.fires.pop_front();
                row.last = row.last.max(fire.at);
                if sent != Sent::Invalid {
                    row.stored = row.stored.max(fire.at);
                }
                row.failures = 0;
                row.is_unfired = sent == Sent::Invalid;
                if sent == Sent::Enqueued {
                    row.previous = Some(fire.at);
                }
                (!row.fires.is_empty()).then_some(now)
            }
            Sent::Early => Some(fire.at),
            Sent::Failed => {
                let pause = (FIRST_PAUSE * (1 << row.failures.min(10))).min(LONGEST_PAUSE);
                row.failures += 1;
                row.unanswered = Some(fire.at);
                Some(now.checked_add_signed(pause).unwrap_or(DateTime::<Utc>::MAX_UTC))
            }
        };
        self.wake(id, wake);
    }

    /// Returns each entry with its last and its next tick, the next to fire first.
    pub(crate) fn rows(&self) -> Vec<ListingRow> {
        let mut rows: Vec<_> = self
            .rows
            .values()
            .map(|row| {
                let last = if row.is_unfired { row.stored } else { row.last };
                (Arc::clone(&row.periodic), row.previous, row.periodic.spec().next_after(last))
            })
            .collect();
        rows.sort_by(|a, b| (a.2.is_none(), a.2, a.0.id()).cmp(&(b.2.is_none(), b.2, b.0.id())));
        rows
    }

    /// Adds an entry to the agenda, by default for the tick after its last.
    fn wake(&mut self, id: &EntryId, wake: Option<DateTime<Utc>>) {
        let Some(row) = self.rows.get_mut(id) else { return };
        row.wake = wake.or_else(|| row.periodic.spec().next_after(row.last));
        self.agenda.extend(row.wake.map(|wake| (wake, id.clone())));
    }
}

#[cfg(test)]
mod tests {
    use asynq_runtime::RawTask;

    use super::*;
    use crate::{CronSpec, Missed};

    fn at(text: &str) -> DateTime<Utc> {
        format!("2026-03-01T{text}Z").parse().expect("a time")
    }

    fn entry(job: &str, spec: &str, missed: Missed) -> Arc<Periodic> {
        let spec = CronSpec::parse(spec).expect(spec);
        Arc::new(Periodic::new(spec, RawTask::new(job, "")).expect("an entry").missed(missed))
    }

    fn state(last: DateTime<Utc>, now: DateTime<Utc>) -> EntryState {
        let (spec, zone) = (String::new(), String::new());
        EntryState { spec, zone, revision: 0, last, previous: None, paused: false, now }
    }

    /// Sends everything that is due until nothing is, and answers each in the same way.
    fn drain(plan: &mut Plan, now: DateTime<Utc>) -> Vec<(String, DateTime<Utc>, u64)> {
        let mut sent = Vec::new();
        for _ in 0..1_000 {
            let taken = plan.take(now, 10);
            if taken.is_empty() {
                return sent;
            }
            for (entry, fire, _) in taken {
                plan.answered(entry.id(), fire, Sent::Enqueued, now);
                sent.push((entry.job().to_owned(), fire.at, fire.missed));
            }
        }
        panic!("it never ends: {sent:?}");
    }

    #[test]
    fn ticks_come_when_they_are_due_and_once() {
        let mut plan = Plan::default();
        plan.set(entry("a", "@every 10s", Missed::Once), &state(at("09:00:00"), at("09:00:01")));
        plan.set(entry("b", "@every 15s", Missed::Once), &state(at("09:00:00"), at("09:00:01")));
        let mut fired = Vec::new();
        for second in 0..=60 {
            let now = at("09:00:00") + TimeDelta::seconds(second);
            assert!(plan.next().is_some_and(|next| next >= now), "late at {now}");
            for (job, time, missed) in drain(&mut plan, now) {
                assert_eq!((time, missed), (now, 0));
                fired.push(job);
            }
        }
        assert_eq!(fired.iter().filter(|job| *job == "a").count(), 6);
        assert_eq!(fired.iter().filter(|job| *job == "b").count(), 4);
    }

    #[test]
    fn missed_ticks_are_made_up_for_by_policy() {
        let (last, now) = (at("04:00:00"), at("09:05:30"));
        for (missed, expected) in [
            (Missed::Skip, vec![]),
            (Missed::Once, vec![("a".to_owned(), at("09:00:00"), 4)]),
            (Missed::All(2), vec![("a".to_owned(), at("08:00:00"), 3), ("a".to_owned(), at("09:00:00"), 0)]),
        ] {
            let mut plan = Plan::default();
            plan.set(entry("a", "@hourly", missed), &state(last, now));
            assert_eq!(drain(&mut plan, now), expected, "{missed:?}");
            // Then the schedule goes on.
            assert_eq!(plan.next(), Some(at("10:00:00")));
        }
    }

    #[test]
    fn the_same_tick_is_sent_until_it_is_answered() {
        let mut plan = Plan::default();
        let a = entry("a", "@every 30s", Missed::Once);
        plan.set(Arc::clone(&a), &state(at("09:00:00"), at("09:00:01")));
        let mut now = at("09:00:30");
        let first = plan.take(now, 10).remove(0).1;
        // One tick of an entry is under way at a time.
        assert!(plan.take(now + TimeDelta::seconds(60), 10).is_empty());
        for pause in [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000] {
            plan.answered(a.id(), first, Sent::Failed, now);
            assert_eq!(plan.next(), Some(now + TimeDelta::milliseconds(pause)));
            now += TimeDelta::milliseconds(pause);
            assert_eq!(plan.take(now, 10).remove(0).1, first);
        }
        plan.answered(a.id(), first, Sent::Settled, now);
        assert_eq!(plan.next(), Some(at("09:01:00")));
    }

    #[test]
    fn a_tick_that_is_refused_until_it_is_late_is_a_missed_one() {
        for missed in [Missed::Skip, Missed::Once] {
            let mut plan = Plan::default();
            let a = entry("a", "* * * * *", missed);
            plan.set(Arc::clone(&a), &state(at("09:00:00"), at("09:00:01")));
            let first = plan.take(at("09:01:00"), 10).remove(0).1;
            plan.answered(a.id(), first, Sent::Failed, at("09:01:00"));
            let taken = plan.take(at("09:03:50"), 10).first().map(|(_, fire, _)| (fire.at, fire.missed));
            // 09:03 is less than a minute ago, and so on time for `skip` as well.
            assert_eq!(taken, Some((at("09:03:00"), 2)), "{missed:?}");
        }
        let mut plan = Plan::default();
        let a = entry("a", "@hourly", Missed::Skip);
        plan.set(Arc::clone(&a), &state(at("08:00:00"), at("08:00:01")));
        let first = plan.take(at("09:00:00"), 10).remove(0).1;
        plan.answered(a.id(), first, Sent::Failed, at("09:00:00"));
        assert_eq!(plan.rows()[0].2, Some(at("09:00:00")), "it is tried again");
        assert!(plan.take(at("09:30:00"), 10).is_empty(), "`skip` does not run it late");
        assert_eq!(plan.rows()[0].2, Some(at("10:00:00")), "the list goes on with the tick that will be fired");
        assert_eq!(plan.next(), Some(at("10:00:00")));
        let second = plan.take(at("10:00:00"), 10).remove(0).1;
        plan.answered(a.id(), second, Sent::Failed, at("10:00:00"));
        assert!(plan.take(at("10:30:00"), 10).is_empty());
        assert_eq!(plan.rows()[0].2, Some(at("09:00:00")), "an entry of which every tick fails is seen to be late");
        let third = plan.take(at("11:00:00"), 10).remove(0).1;
        plan.answered(a.id(), third, Sent::Settled, at("11:00:00"));
        assert_eq!(plan.rows()[0].2, Some(at("12:00:00")), "it fires again");
    }

    #[test]
    fn a_late_tick_that_is_refused_is_sent_less_and_less_often() {
        let mut plan = Plan::default();
        let a = entry("a", "@hourly", Missed::Once);
        plan.set(Arc::clone(&a), &state(at("08:00:00"), at("08:00:01")));
        let mut now = at("09:02:00");
        for pause in [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000] {
            let fire = plan.take(now, 10).remove(0).1;
            assert_eq!((fire.at, plan.has_failed(a.id())), (at("09:00:00"), pause > 100));
            plan.answered(a.id(), fire, Sent::Failed, now);
            assert_eq!(plan.next(), Some(now + TimeDelta::milliseconds(pause)));
            now += TimeDelta::milliseconds(pause);
        }
        // A later tick was not sent before, and is sent no sooner.
        now += TimeDelta::hours(1);
        let fire = plan.take(now, 10).remove(0).1;
        assert_eq!((fire.at, plan.has_failed(a.id())), (at("10:00:00"), false));
        plan.answered(a.id(), fire, Sent::Failed, now);
        assert_eq!(plan.next(), Some(now + TimeDelta::seconds(5)));
    }

    #[test]
    fn a_fast_clock_waits_for_the_brokers() {
        let mut plan = Plan::default();
        let a = entry("a", "@every 10s", Missed::Once);
        plan.set(Arc::clone(&a), &state(at("09:00:00"), at("09:00:01")));
        let fire = plan.take(at("09:00:10"), 10).remove(0).1;
        plan.answered(a.id(), fire, Sent::Early, at("09:00:10"));
        // The clock is corrected by the answer.
        assert!(plan.take(at("09:00:06"), 10).is_empty());
        assert_eq!(plan.next(), Some(at("09:00:10")));
        assert_eq!(plan.take(at("09:00:10"), 10).remove(0).1, fire);
    }

    #[test]
    fn a_tick_that_is_never_sent_is_not_one_that_the_broker_stored() {
        let mut plan = Plan::default();
        let (a, last, now) = (entry("a", "@every 10s", Missed::Once), at("09:00:00"), at("09:00:10"));
        plan.set(Arc::clone(&a), &state(last, at("09:00:01")));
        let fire = plan.take(now, 10).remove(0).1;
        plan.answered(a.id(), fire, Sent::Invalid, now);
        // The schedule goes on after the tick, and the broker is expected to have the last tick that it reported.
        assert_eq!((plan.next(), plan.newest()[0].1), (Some(at("09:00:20")), last));
        assert_eq!(plan.take(at("09:00:20"), 10).remove(0).2, last);
    }

    #[test]
    fn an_entry_that_is_set_again_begins_anew_in_every_state() {
        let mut plan = Plan::default();
        let day = TimeDelta::days(1);
        let a = entry("a", "@hourly", Missed::Once);
        plan.set(Arc::clone(&a), &state(at("09:00:00"), at("09:00:01")));
        // The clock is a day ahead: a tick that is due by it is early for the broker, and would wait for a day.
        let fire = plan.take(at("09:30:00") + day, 10).remove(0).1;
        plan.answered(a.id(), fire, Sent::Early, at("09:30:00") + day);
        assert_eq!(plan.next(), Some(fire.at));
        plan.set(Arc::clone(&a), &state(at("09:00:00"), at("09:31:00")));
        assert_eq!(plan.next(), Some(at("10:00:00")));
        // The answer to an earlier request is discarded.
        plan.answered(a.id(), fire, Sent::Enqueued, at("09:31:00"));
        assert_eq!(drain(&mut plan, at("10:00:00")), [("a".to_owned(), at("10:00:00"), 0)]);
    }

    #[test]
    fn a_removed_entry_does_not_fire_until_it_is_set_again() {
        let mut plan = Plan::default();
        let a = entry("a", "@every 10s", Missed::Once);
        plan.set(Arc::clone(&a), &state(at("09:00:00"), at("09:00:01")));
        let fire = plan.take(at("09:00:10"), 10).remove(0).1;
        plan.remove(a.id());
        plan.answered(a.id(), fire, Sent::Settled, at("09:00:10"));
        assert_eq!(plan.next(), None);
        plan.set(Arc::clone(&a), &state(at("09:00:00"), at("09:00:11")));
        assert_eq!(plan.next(), Some(at("09:00:10")));
        plan.remove(a.id());
        assert_eq!((plan.next(), plan.rows().len()), (None, 0));
        // An answer that comes after the timeout is discarded.
        plan.answered(a.id(), fire, Sent::Enqueued, at("09:00:12"));
        assert_eq!(plan.next(), None);
    }

    #[test]
    fn rows_are_sorted_by_their_next_tick() {
        let mut plan = Plan::default();
        plan.set(entry("hourly", "@hourly", Missed::Once), &state(at("09:00:00"), at("09:00:01")));
        // Its schedule was changed at nine, an hour after its last task.
        let often = entry("often", "@every 10s", Missed::Once);
        let known =
            EntryState { previous: Some(often.id().task_id(at("08:00:00"))), ..state(at("09:00:00"), at("09:00:01")) };
        plan.set(often, &known);
        let rows: Vec<_> = plan.rows().into_iter().map(|(a, prev, next)| (a.job().to_owned(), prev, next)).collect();
        let expected = [
            ("often".to_owned(), Some(at("08:00:00")), Some(at("09:00:10"))),
            ("hourly".to_owned(), None, Some(at("10:00:00"))),
        ];
        assert_eq!(rows, expected);
    }
}
