//! Periodic entries as running schedulers list them, for `cron ls` and the live view alike.

use asynq_cron::{EntryId, Schedule};
use asynq_runtime::{
    Client,
    broker::BrokerError,
    task::{SchedulerEntry, Timestamp},
};
use chrono::{DateTime, Utc};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::reading::AT_ONCE;

/// A listed entry.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) listed: SchedulerEntry,
    pub(crate) paused: bool,
    /// The last tick as the broker keeps it; `None` for entries of Go's scheduler.
    pub(crate) last: Option<DateTime<Utc>>,
    /// Why the broker's state of the entry cannot be read: neither `paused` nor `last` is known then.
    pub(crate) error: Option<String>,
}

impl Entry {
    /// Returns the next tick, if there is one.
    pub(crate) fn next(&self) -> Option<DateTime<Utc>> {
        self.listed.next_enqueue_time.and_then(Timestamp::to_datetime)
    }

    /// Returns the last tick, if there was one.
    pub(crate) fn previous(&self) -> Option<DateTime<Utc>> {
        self.listed.prev_enqueue_time.and_then(Timestamp::to_datetime)
    }
}

/// Returns every entry once, by spec, type, id and queue. An entry that cannot be read hides no other.
pub(crate) async fn entries(client: &Client) -> Result<Vec<Entry>, BrokerError> {
    let schedule = Schedule::new(client);
    let mut all = schedule.entries().await?;
    all.sort_by(|a, b| (&a.spec, &a.task_type, &a.id).cmp(&(&b.spec, &b.task_type, &b.id)));
    stream::iter(all).map(|listed| read(client, &schedule, listed)).buffered(AT_ONCE).try_collect().await
}

/// Returns an entry, with an error where the broker's state of it cannot be read.
async fn read(client: &Client, schedule: &Schedule, listed: SchedulerEntry) -> Result<Entry, BrokerError> {
    let state = schedule.entry(&Schedule::queue_of(&listed), &EntryId::from_wire(&listed.id)).await;
    let error = state.as_ref().err().map(ToString::to_string);
    // If a part of the broker is away, the entry carries the error; if the whole broker is away, no entry can be read.
    if state.as_ref().is_err_and(BrokerError::is_unavailable) {
        client.broker().ping().await?;
    }
    let (paused, last) = state.ok().flatten().map_or((false, None), |state| (state.paused, Some(state.last)));
    Ok(Entry { listed, paused, last, error })
}
