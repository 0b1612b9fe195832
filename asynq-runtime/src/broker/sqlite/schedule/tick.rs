//! One tick of an entry, in one transaction: the steps of the contract in their order.

use std::time::Duration;

use rusqlite::params;

use crate::{
    broker::{BrokerError, EntryPlan, NewTask, Overlap, Placed, Refused, Tick, Ticked, task_end::has_ended},
    task::{TaskId, TaskState},
};

use super::{
    super::{
        listed,
        liveness::Liveness,
        presence,
        produce::Item,
        sql,
        store::Store,
        stored_task::StoredTask,
        tx::{Tx, View},
    },
    CLOCK_WENT_BACK_MS, after,
    entry::StoredEntry,
};

/// A tick that is being fired, with its task encoded once however often the transaction is repeated.
#[derive(Debug)]
pub(super) struct Firing {
    tick: Tick,
    item: Item,
}

/// The decision about a tick by the entry and the clock, before its task is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Milliseconds too early.
    Early(u64),
    Stale,
    /// Ticks that were acknowledged are missing in the file.
    Behind,
    /// Fired before; the last tick is this value from now on.
    Duplicate(i64),
    /// Not fired; the last tick is this value from now on.
    Paused(i64),
    Fire,
}

/// Decides about a tick: rows 1 to 6 of docs/design/schedules.md#a-tick.
fn judge(
    stored: Option<&StoredEntry>,
    marked: bool,
    plan: &EntryPlan,
    known: Option<i64>,
    at: i64,
    now: i64,
) -> Verdict {
    if at > now {
        return Verdict::Early(at.saturating_sub(now).unsigned_abs());
    }
    let Some(stored) = stored else { return if marked { Verdict::Duplicate(at) } else { Verdict::Fire } };
    if stored.revision > plan.revision && !stored.is_planned_as(plan) {
        return Verdict::Stale;
    }
    // After the clock went back, a tick of this moment fires, and none of the time before.
    let last = if stored.is_ahead(now) { now.saturating_sub(CLOCK_WENT_BACK_MS) } else { stored.last };
    // The tick must wait: it would hide the ticks that were lost.
    if !stored.is_ahead(now) && known.is_some_and(|known| stored.last < known) {
        return Verdict::Behind;
    }
    if at <= last || marked {
        Verdict::Duplicate(at.max(last))
    } else if stored.paused {
        Verdict::Paused(at)
    } else {
        Verdict::Fire
    }
}

impl Firing {
    pub(super) fn new(tick: &Tick) -> Self {
        // The marker tells that an earlier send has fired; a task that has the id without it is not this one.
        let item = Item::new(NewTask { id_is_ours: false, replaces: None, ..tick.task.clone() });
        Self { tick: tick.clone(), item }
    }

    /// Returns the time of the tick in Unix milliseconds.
    fn at(&self) -> i64 {
        self.tick.at.timestamp_millis()
    }

    /// Returns the server that runs the previous task, if its program is dead. File locks are tried outside of the write
    /// transaction, which others wait for; the number of a server is never reused.
    pub(super) async fn dead_worker(&self, store: &Store) -> Result<Option<i64>, BrokerError> {
        if self.tick.overlap != Overlap::Replace || store.common.liveness.is_none() {
            return Ok(None);
        }
        let (plan, common) = (self.tick.plan.clone(), store.common.clone());
        store
            .read(move |view| {
                let Some(liveness) = &common.liveness else { return Ok(None) };
                let previous = StoredEntry::find(view, &plan.queue, &plan.entry)?.and_then(|stored| stored.previous);
                let Some(id) = previous else { return Ok(None) };
                let Some(task) = StoredTask::find(view, &plan.queue, &id)? else { return Ok(None) };
                let runs = task.state == TaskState::Active;
                Ok((runs && is_dead(view, liveness, task.server)?).then_some(task.server))
            })
            .await
    }

    /// Returns the answer, if it leaves the file as it is.
    pub(super) fn needs_nothing(&self, view: &View<'_>) -> rusqlite::Result<Option<Ticked>> {
        let (stored, verdict) = self.look(view)?;
        Ok(match verdict {
            Verdict::Early(ms) => Some(Ticked::Early(Duration::from_millis(ms))),
            Verdict::Stale => Some(Ticked::Stale),
            Verdict::Behind => Some(Ticked::Behind),
            Verdict::Duplicate(last) => stored.filter(|stored| stored.last == last).map(|_| Ticked::Duplicate),
            Verdict::Paused(_) | Verdict::Fire => None,
        })
    }

    /// Fires the tick. `dead` is a server whose program is dead.
    pub(super) fn run(&self, tx: &mut Tx<'_>, dead: Option<i64>) -> rusqlite::Result<Ticked> {
        let (stored, verdict) = self.look(&tx.view)?;
        let (last, revision) = stored.as_ref().map_or((self.at(), 0), |stored| (stored.last, stored.revision));
        let revision = revision.max(self.tick.plan.revision);
        let (previous, paused) = stored.map_or((None, false), |stored| (stored.previous, stored.paused));
        // The entry takes the schedule of this plan; its revision never goes back.
        let stored = StoredEntry { revision, previous, paused, ..StoredEntry::new(&self.tick.plan, last) };
        let passed_over = |last, answer| {
            StoredEntry { last, ..stored.clone() }.write(&tx.view, &self.tick.plan)?;
            Ok(answer)
        };
        match verdict {
            Verdict::Early(ms) => return Ok(Ticked::Early(Duration::from_millis(ms))),
            Verdict::Stale => return Ok(Ticked::Stale),
            Verdict::Behind => return Ok(Ticked::Behind),
            Verdict::Duplicate(last) => return passed_over(last, Ticked::Duplicate),
            Verdict::Paused(last) => return passed_over(last, Ticked::Paused),
            Verdict::Fire => {}
        }
        let EntryPlan { queue, entry, .. } = &self.tick.plan;
        let marked_until = after(tx.view.now, self.tick.marker);
        // Two for one: however many ticks there are, the markers stay as many as their time allows.
        tx.view.execute(&sql::schedule::SWEEP_TICKS, [tx.view.now, 2])?;
        tx.view.execute(&sql::schedule::MARK, params![queue.as_str(), entry.as_str(), self.at(), marked_until])?;
        let ticked = self.fire(tx, stored.previous.as_deref(), dead)?;
        let previous =
            if matches!(ticked, Ticked::Enqueued(_)) { Some(self.tick.task.id.to_string()) } else { stored.previous };
        StoredEntry { last: self.at(), previous, ..stored }.write(&tx.view, &self.tick.plan)?;
        Ok(ticked)
    }

    fn look(&self, view: &View<'_>) -> rusqlite::Result<(Option<StoredEntry>, Verdict)> {
        let stored = StoredEntry::find(view, &self.tick.plan.queue, &self.tick.plan.entry)?;
        let tick = params![self.tick.plan.queue.as_str(), self.tick.plan.entry.as_str(), self.at(), view.now];
        let marked = view.find(&sql::schedule::MARKED, tick, |_| Ok(()))?.is_some();
        let known = self.tick.known.map(|known| known.timestamp_millis());
        let verdict = judge(stored.as_ref(), marked, &self.tick.plan, known, self.at(), view.now);
        Ok((stored, verdict))
    }

    /// Does rows 7 to 9 of docs/design/schedules.md#a-tick, up to the enqueue. A task that would be replaced stays where it is when the
    /// new task is refused.
    fn fire(&self, tx: &mut Tx<'_>, previous: Option<&str>, dead: Option<i64>) -> rusqlite::Result<Ticked> {
        let there = match (self.tick.overlap, previous) {
            (Overlap::Allow, _) | (_, None) => None,
            (Overlap::Skip | Overlap::Replace, Some(id)) => {
                StoredTask::find(&tx.view, &self.tick.plan.queue, id)?.filter(|task| !has_ended(task.state))
            }
        };
        let Some(task) = there else { return Ok(ticked(self.item.insert(tx)?)) };
        if self.tick.overlap == Overlap::Skip {
            return Ok(Ticked::Skipped(TaskId::from_wire(&task.id)));
        }
        // A task whose worker died would come back, so it is deleted as one that waits.
        let runs = runs(&task, tx.view.now, dead);
        let placed = tx.whole_or_nothing(|tx| {
            if runs {
                presence::ask_to_cancel(tx, &task.id)?;
                task.mark_replaced(&tx.view)?;
            } else if !task.staged {
                tx.delete(&task.to_delete())?;
            }
            self.item.insert(tx)
        })?;
        Ok(ticked(placed))
    }
}

fn ticked(placed: Result<Placed, Refused>) -> Ticked {
    placed.map_or_else(Ticked::Refused, Ticked::Enqueued)
}

/// Whether the task of the tick before runs. A task whose lease has passed or whose server is `dead` is taken to wait for its
/// recovery.
fn runs(task: &StoredTask, now: i64, dead: Option<i64>) -> bool {
    task.state == TaskState::Active && task.at > now && dead != Some(task.server)
}

/// Whether the program of a server is dead. Where its file cannot tell, the lease will.
fn is_dead(view: &View<'_>, liveness: &Liveness, server: i64) -> rusqlite::Result<bool> {
    let listed = listed::everyone(view)?.into_iter().find(|listed| listed.number == server);
    Ok(listed.is_some_and(|listed| liveness.is_dead(&listed.file)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{broker::EntryId, task::QueueName};

    fn plan(spec: &str, revision: u64) -> EntryPlan {
        EntryPlan {
            queue: QueueName::from_wire("q"),
            entry: EntryId::from_wire("e"),
            spec: spec.into(),
            zone: "UTC".into(),
            revision,
            supersedes: None,
            keep: Duration::from_secs(60),
        }
    }

    #[test]
    fn the_steps_come_in_their_order() {
        const NOW: i64 = 100_000;
        let stored = |last| StoredEntry::new(&plan("a", 2), last);
        let paused = |last| StoredEntry { paused: true, ..stored(last) };
        let other_spec = |last| StoredEntry::new(&plan("b", 3), last);
        let (at, early) = (90_000, NOW + 1);
        for (case, stored, marked, at, expected) in [
            ("unknown", None, false, at, Verdict::Fire),
            ("unknown, marked", None, true, at, Verdict::Duplicate(at)),
            ("unknown, early", None, false, early, Verdict::Early(1)),
            ("due now", Some(stored(0)), false, NOW, Verdict::Fire),
            ("next", Some(stored(at - 1)), false, at, Verdict::Fire),
            ("again", Some(stored(at)), true, at, Verdict::Duplicate(at)),
            ("again, the marker is over", Some(stored(at)), false, at, Verdict::Duplicate(at)),
            ("a later one fired", Some(stored(at + 1)), false, at, Verdict::Duplicate(at + 1)),
            ("marked, last was lost", Some(stored(0)), true, at, Verdict::Duplicate(at)),
            ("a little ahead", Some(stored(NOW + 5_000)), false, at, Verdict::Duplicate(NOW + 5_000)),
            ("the clock went back", Some(stored(NOW + 5_001)), false, at, Verdict::Duplicate(NOW - 5_000)),
            ("the clock went back, on time", Some(stored(NOW + 5_001)), false, NOW - 4_999, Verdict::Fire),
            ("the clock went back, marked", Some(stored(NOW + 5_001)), true, NOW - 1, Verdict::Duplicate(NOW - 1)),
            ("the clock went back, paused", Some(paused(NOW + 5_001)), false, NOW, Verdict::Paused(NOW)),
            ("paused", Some(paused(0)), false, at, Verdict::Paused(at)),
            ("paused, again", Some(paused(at)), false, at, Verdict::Duplicate(at)),
            ("early goes first", Some(other_spec(NOW * 2)), true, early, Verdict::Early(1)),
            ("stale goes before the rest", Some(other_spec(NOW * 2)), true, at, Verdict::Stale),
            ("newer program, same spec", Some(StoredEntry { revision: 9, ..stored(0) }), false, at, Verdict::Fire),
            ("older program, other spec", Some(StoredEntry { revision: 1, ..other_spec(0) }), false, at, Verdict::Fire),
        ] {
            assert_eq!(judge(stored.as_ref(), marked, &plan("a", 2), None, at, NOW), expected, "{case}");
        }
        for (case, stored, known, expected) in [
            ("as known", Some(stored(at - 9)), at - 9, Verdict::Fire),
            ("later than known", Some(stored(at - 8)), at - 9, Verdict::Fire),
            ("earlier than known", Some(stored(at - 10)), at - 9, Verdict::Behind),
            ("earlier than known, paused", Some(paused(at - 10)), at - 9, Verdict::Behind),
            ("fired by another", Some(stored(at)), at - 9, Verdict::Duplicate(at)),
            ("forgotten", None, at - 9, Verdict::Fire),
            ("the clock went back", Some(stored(NOW + 5_001)), NOW + 9_000, Verdict::Duplicate(NOW - 5_000)),
        ] {
            assert_eq!(judge(stored.as_ref(), false, &plan("a", 2), Some(known), at, NOW), expected, "{case}");
        }
    }

    #[test]
    fn a_task_that_waits_for_recovery_does_not_run() {
        use TaskState::{Active, Aggregating, Pending, Retry, Scheduled};
        let task = |state, at| StoredTask { at, server: 7, ..StoredTask::in_state(state) };
        for state in [Pending, Scheduled, Retry, Aggregating, Active] {
            assert!(!runs(&task(state, 0), 10, Some(7)), "{state}");
        }
        for (lease, dead, expected) in
            [(11, None, true), (11, Some(8), true), (11, Some(7), false), (10, None, false), (9, None, false)]
        {
            assert_eq!(runs(&task(Active, lease), 10, dead), expected, "{lease} {dead:?}");
        }
    }
}
