//! Periodic entries: the schedulers' lists, the broker's states of them, and their next ticks.

use asynq_cron::{CronSpec, EntryId, Schedule};
use asynq_runtime::{
    broker::{BrokerError, EntryState, Page},
    task::{QueueName, SchedulerEnqueueEvent, SchedulerEntry, Timestamp},
};
use chrono::{DateTime, Utc};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::{failure::Failure, query::payload, span::Span, state::AppState};

/// Entries that are read at the same time.
const AT_ONCE: usize = 16;
/// Most entries of one page.
const MOST: usize = 500;
/// Next runs of one entry that are shown.
const NEXT: usize = 5;

/// One periodic entry.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The entry as the scheduler lists it. A Go scheduler gives an entry a new id at every start.
    pub(crate) listed: SchedulerEntry,
    /// The queue of the tasks.
    pub(crate) queue: QueueName,
    /// The schedule as a sentence, where it can be read.
    pub(crate) sentence: Option<String>,
    /// The payload of the tasks.
    pub(crate) payload: payload::Rendered,
    /// The time of the last tick.
    pub(crate) previous: Option<DateTime<Utc>>,
    /// The next ticks, soonest first; none while the entry is paused.
    pub(crate) next: Vec<DateTime<Utc>>,
    /// The broker's state of the entry; `None` for an entry of a Go scheduler, which cannot be paused.
    pub(crate) state: Option<EntryState>,
    /// Why the broker's state of the entry cannot be read.
    pub(crate) error: Option<String>,
}

impl Entry {
    /// Returns whether the entry is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.paused)
    }
}

/// Returns a page of the entries of all schedulers that live, by type, each once, and the numbers of the page. An entry that cannot be
/// read hides no other: it carries an error.
pub(crate) async fn entries(app: &AppState, page: usize) -> Result<(Vec<Entry>, Span), Failure> {
    let listed = app.schedule.entries().await?;
    let span = Span::new(page, MOST, listed.len() as u64);
    let listed = listed.into_iter().skip(span.offset()).take(span.per);
    let entries = stream::iter(listed).map(|entry| read(app, entry)).buffered(AT_ONCE);
    Ok((entries.try_collect().await?, span))
}

/// Returns one entry.
///
/// # Errors
///
/// No scheduler that lives lists the entry, or the broker failed.
pub(crate) async fn one(app: &AppState, queue: &str, id: &str) -> Result<Entry, Failure> {
    let mut listed = app.schedule.entries().await?.into_iter();
    let found = listed.find(|entry| entry.id == id && Schedule::queue_of(entry).as_str() == queue);
    let found = found.ok_or_else(|| {
        Failure::not_found(format!(
            "periodic entry `{id}` was not found in queue `{queue}`: no scheduler that runs now has it"
        ))
    })?;
    let state = state(app, &found).await?;
    Ok(with(app, found, state).await)
}

/// Returns one page of the tasks that an entry enqueued, the newest first.
pub(crate) async fn history(app: &AppState, id: &str, page: Page) -> Result<Vec<SchedulerEnqueueEvent>, Failure> {
    Ok(app.schedule.history(&EntryId::from_wire(id), page).await?)
}

/// Returns the broker's state of an entry.
async fn state(app: &AppState, listed: &SchedulerEntry) -> Result<Option<EntryState>, BrokerError> {
    app.schedule.entry(&Schedule::queue_of(listed), &EntryId::from_wire(&listed.id)).await
}

/// Returns an entry, with an error where the broker's state of it cannot be read.
async fn read(app: &AppState, listed: SchedulerEntry) -> Result<Entry, Failure> {
    let error = match state(app, &listed).await {
        Ok(state) => return Ok(with(app, listed, state).await),
        Err(error) => error,
    };
    // If a part of the broker is away, the entry carries the error; if the whole broker is away, the page says so.
    if error.is_unavailable() {
        app.client.broker().ping().await?;
    }
    Ok(Entry { error: Some(error.to_string()), ..with(app, listed, None).await })
}

/// Returns an entry with the broker's state of it.
async fn with(app: &AppState, listed: SchedulerEntry, state: Option<EntryState>) -> Entry {
    let spec = Schedule::spec_of(&listed).ok();
    let next = match &state {
        Some(state) if state.paused => Vec::new(),
        // Go's scheduler stores no state. It may run in another time zone, and counts `@every` from its start.
        state => next(&listed, spec.as_ref().filter(|_| state.is_some()), app.client.broker().now()),
    };
    Entry {
        sentence: spec.map(|spec| spec.sentence()),
        payload: payload::of_one(app, &listed.task_type, &listed.task_payload).await,
        previous: listed.prev_enqueue_time.and_then(Timestamp::to_datetime),
        next,
        state,
        error: None,
        queue: Schedule::queue_of(&listed),
        listed,
    }
}

/// Returns the next ticks of an entry: those of its schedule, if it is given and has any, or else the one that its scheduler lists.
fn next(listed: &SchedulerEntry, spec: Option<&CronSpec>, now: DateTime<Utc>) -> Vec<DateTime<Utc>> {
    let mut next = spec.map(|spec| spec.upcoming_after(now, NEXT)).unwrap_or_default();
    if next.is_empty() {
        next.extend(listed.next_enqueue_time.and_then(Timestamp::to_datetime));
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_ticks_are_those_of_the_entrys_own_rules_or_listed() {
        let daily = "TZ=Europe/Berlin 30 2 * * *";
        let at = |text: &str| format!("{text}:00Z").parse::<DateTime<Utc>>().expect(text);
        for (spec, compat, now, first) in [
            // robfig leaves 02:30 out where it does not exist, and fires twice where it comes twice.
            (daily, false, "2027-03-27T12:00", ["2027-03-28T01:00", "2027-03-29T00:30"]),
            (daily, true, "2027-03-27T12:00", ["2027-03-29T00:30", "2027-03-30T00:30"]),
            (daily, false, "2026-10-25T00:45", ["2026-10-26T01:30", "2026-10-27T01:30"]),
            (daily, true, "2026-10-25T00:45", ["2026-10-25T01:30", "2026-10-26T01:30"]),
            ("@every 12h", false, "2026-10-25T00:45", ["2026-10-25T12:00", "2026-10-26T00:00"]),
        ] {
            let listed = at("2027-01-01T00:00");
            let entry = SchedulerEntry {
                spec: spec.to_owned(),
                compat,
                next_enqueue_time: Some(listed.into()),
                ..SchedulerEntry::default()
            };
            let schedule = Schedule::spec_of(&entry).expect(spec);
            let ticks = next(&entry, Some(&schedule), at(now));
            assert_eq!((ticks.len(), &ticks[..2]), (NEXT, &first.map(at)[..]), "{spec} after {now}");
            // Of an entry of Go's only the listed tick is known.
            assert_eq!(next(&entry, None, at(now)), [listed]);
        }
    }
}
