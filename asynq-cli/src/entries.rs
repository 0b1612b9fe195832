//! Periodic entries as running schedulers list them, for `cron ls` and the live view alike.

use asynq_cron::{EntryId, Schedule};
use asynq_runtime::{
    broker::BrokerError,
    task::{SchedulerEntry, Timestamp},
};
use chrono::{DateTime, Utc};

/// A listed entry.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) listed: SchedulerEntry,
    pub(crate) paused: bool,
    /// Its last tick as the broker keeps it; none of entries of Go's scheduler.
    pub(crate) last: Option<DateTime<Utc>>,
}

impl Entry {
    /// Its next tick, if there is one.
    pub(crate) fn next(&self) -> Option<DateTime<Utc>> {
        self.listed.next_enqueue_time.and_then(Timestamp::to_datetime)
    }

    /// Its last tick, if there was one.
    pub(crate) fn previous(&self) -> Option<DateTime<Utc>> {
        self.listed.prev_enqueue_time.and_then(Timestamp::to_datetime)
    }
}

/// Every entry once, by spec, type and id.
pub(crate) async fn entries(schedule: &Schedule) -> Result<Vec<Entry>, BrokerError> {
    let mut all = schedule.entries().await?;
    all.sort_by(|a, b| (&a.spec, &a.task_type, &a.id).cmp(&(&b.spec, &b.task_type, &b.id)));
    // Replicas of one scheduler list the same entries.
    all.dedup_by(|a, b| a.id == b.id);
    let mut entries = Vec::with_capacity(all.len());
    for listed in all {
        let state = schedule.entry(&Schedule::queue_of(&listed), &EntryId::from_wire(&listed.id)).await?;
        let (paused, last) = state.map_or((false, None), |state| (state.paused, Some(state.last)));
        entries.push(Entry { listed, paused, last });
    }
    Ok(entries)
}
