//! Periodic entries: their ticks, their leader, and their rows for tools (contract: `broker/schedule.rs`).

mod entry;
mod lead;
mod shown;
mod tick;

use std::{sync::Arc, time::Duration};

use prost::Message as _;
use rusqlite::params;

use crate::{
    broker::{BrokerError, Candidate, EntryId, EntryPlan, EntryState, Lead, Page, Planned, Schedules, Tick, Ticked},
    task::{QueueName, SchedulerEnqueueEvent, SchedulerEntry},
};

use self::{entry::StoredEntry, lead::Leader, tick::Firing};
use super::{
    SqliteBroker,
    command::{Priority, WriteCommand},
    row::{after, instant},
    sql,
    store::far,
    tx::View,
};

/// A stored time that is this far ahead was written before the clock was set back.
const CLOCK_WENT_BACK_MS: i64 = 5_000;

/// Most markers that one sweep takes away.
const MARKERS: i64 = 500;

/// Most histories that one sweep takes away; each has at most 1,000 rows.
const HISTORIES: i64 = 2;

#[async_trait::async_trait]
impl Schedules for SqliteBroker {
    async fn tick(&self, tick: &Tick) -> Result<Ticked, BrokerError> {
        tick.check()?;
        let firing = Arc::new(Firing::new(tick));
        let dead = firing.dead_worker(&self.store).await?;
        let look = Arc::clone(&firing);
        let command = WriteCommand::new(Priority::Insert, 1, move |tx| firing.run(tx, dead));
        self.store.write(command.unless(move |view| look.needs_nothing(view))).await
    }

    async fn plan_entry(&self, plan: &EntryPlan) -> Result<Planned, BrokerError> {
        let plan = plan.clone();
        self.change(move |tx| {
            let before = StoredEntry::find(&tx.view, &plan.queue, &plan.entry)?;
            let (stored, change) = entry::planned(before.as_ref(), &plan, tx.view.now);
            if before.as_ref() != Some(&stored) || !entry::is_outranked(before.as_ref(), &plan) {
                stored.write(&tx.view, &plan)?;
            }
            Ok(Planned { state: stored.into_state(tx.view.now), change })
        })
        .await
    }

    async fn entry(&self, queue: &QueueName, entry: &EntryId) -> Result<Option<EntryState>, BrokerError> {
        let (queue, entry) = (queue.clone(), entry.clone());
        self.store
            .read(move |view| Ok(StoredEntry::find(view, &queue, &entry)?.map(|stored| stored.into_state(view.now))))
            .await
    }

    async fn pause_entry(&self, queue: &QueueName, entry: &EntryId, paused: bool) -> Result<bool, BrokerError> {
        let (queue, entry) = (queue.clone(), entry.clone());
        self.change(move |tx| {
            let which = params![queue.as_str(), entry.as_str(), paused, tx.view.now];
            Ok(tx.view.execute(&sql::schedule::PAUSE, which)? == 1)
        })
        .await
    }

    async fn forget_entry(&self, queue: &QueueName, entry: &EntryId) -> Result<(), BrokerError> {
        let (queue, entry) = (queue.clone(), entry.clone());
        self.change(move |tx| {
            // The markers of the entry stay for their time, so that an entry that comes back fires no tick twice.
            tx.view.execute(&sql::schedule::FORGET, [queue.as_str(), entry.as_str()])?;
            shown::forget_history(&tx.view, entry.as_str())
        })
        .await
    }

    async fn lead(&self, candidate: &Candidate, ttl: Duration) -> Result<Lead, BrokerError> {
        let (candidate, look) = (candidate.clone(), candidate.clone());
        let command = WriteCommand::new(Priority::Settle, 1, move |tx| {
            let found = Leader::find(&tx.view, &candidate.program)?;
            let (change, lead) = lead::decide(found.as_ref(), &candidate, tx.view.now, ttl);
            if let Some(leader) = change {
                leader.write(&tx.view, &candidate.program)?;
            }
            Ok(lead)
        });
        let command = command.unless(move |view| {
            let found = Leader::find(view, &look.program)?;
            let (change, lead) = lead::decide(found.as_ref(), &look, view.now, ttl);
            Ok(change.is_none().then_some(lead))
        });
        self.store.write(command).await
    }

    async fn resign(&self, candidate: &Candidate) -> Result<(), BrokerError> {
        let Candidate { program, token, .. } = candidate.clone();
        self.change(move |tx| {
            let resigned = tx.view.execute(&sql::schedule::RESIGN, params![program, token, tx.view.now])?;
            tx.effects.signal |= resigned > 0;
            Ok(())
        })
        .await
    }

    async fn wait_for_lead(&self, program: &str, limit: Duration) -> Result<(), BrokerError> {
        let deadline = far(limit);
        let mut notifier = self.store.common.notifier.signal.subscribe();
        loop {
            let program = program.to_owned();
            let leader = self.store.read(move |view| Leader::find(view, &program)).await?;
            let Some(leader) = leader else { return Ok(()) };
            if !self.notified_before(&mut notifier, Some(leader.until), deadline).await {
                return Ok(());
            }
        }
    }

    async fn show_entries(
        &self,
        scheduler: &str,
        entries: &[SchedulerEntry],
        ttl: Duration,
    ) -> Result<(), BrokerError> {
        let scheduler = scheduler.to_owned();
        let rows: Vec<_> = entries.iter().map(SchedulerEntry::encode_to_vec).collect();
        self.change(move |tx| shown::show(&tx.view, &scheduler, &rows, after(tx.view.now, ttl))).await
    }

    async fn withdraw_entries(&self, scheduler: &str) -> Result<(), BrokerError> {
        let scheduler = scheduler.to_owned();
        self.change(move |tx| tx.view.execute(&sql::schedule::WITHDRAW, [&scheduler]).map(|_| ())).await
    }

    async fn record_enqueue(&self, entry: &str, event: &SchedulerEnqueueEvent) -> Result<(), BrokerError> {
        let (entry, event) = (entry.to_owned(), event.clone());
        self.change(move |tx| shown::record(&tx.view, &entry, &event)).await
    }

    async fn scheduler_entries(&self) -> Result<Vec<SchedulerEntry>, BrokerError> {
        self.store.read(shown::entries).await
    }

    async fn enqueue_history(&self, entry: &str, page: Page) -> Result<Vec<SchedulerEnqueueEvent>, BrokerError> {
        let entry = entry.to_owned();
        self.store.read(move |view| shown::history(view, &entry, page)).await
    }
}

/// Takes away markers, entries, shown entries, leads and histories whose time is over, whatever queue they are of: a queue may have
/// entries and no server.
pub(super) fn sweep(view: &View<'_>) -> rusqlite::Result<()> {
    view.execute(&sql::schedule::SWEEP_TICKS, [view.now, MARKERS])?;
    for sweep in [&sql::schedule::SWEEP_ENTRIES, &sql::schedule::SWEEP_SHOWN, &sql::schedule::SWEEP_LEADS] {
        view.execute(sweep, [view.now])?;
    }
    for entry in view.list(&sql::schedule::OVER_HISTORIES, [view.now, HISTORIES], |row| row.get::<_, String>(0))? {
        shown::forget_history(view, &entry)?;
    }
    Ok(())
}
