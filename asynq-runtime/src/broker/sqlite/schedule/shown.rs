//! Rows for asynq's tools: the entries of the schedulers that live, and the enqueues of each entry.

use prost::Message as _;
use rusqlite::params;

use crate::{
    broker::Page,
    task::{SchedulerEnqueueEvent, SchedulerEntry},
};

use super::super::{row::limit_of, sql, tx::View};

/// Most enqueues kept per entry, as in asynq.
const HISTORY: i64 = 1_000;

/// For how long a history is kept without a new event.
const HISTORY_MS: i64 = 90 * 86_400_000;

/// Replaces the entries of a scheduler, and removes entries of any scheduler that were not renewed.
pub(super) fn show(view: &View<'_>, scheduler: &str, rows: &[Vec<u8>], until: i64) -> rusqlite::Result<()> {
    view.execute(&sql::schedule::SWEEP_SHOWN, [view.now])?;
    view.execute(&sql::schedule::WITHDRAW, [scheduler])?;
    for (n, row) in (0_i64..).zip(rows) {
        view.execute(&sql::schedule::SHOW, params![scheduler, n, row, until])?;
    }
    Ok(())
}

/// Returns the entries of all schedulers that live. An entry that cannot be read is left out.
pub(super) fn entries(view: &View<'_>) -> rusqlite::Result<Vec<SchedulerEntry>> {
    let rows = view.list(&sql::schedule::SHOWN, [view.now], |row| row.get::<_, Vec<u8>>(0))?;
    Ok(rows.iter().filter_map(|row| SchedulerEntry::decode(row.as_slice()).ok()).collect())
}

/// Adds to the history of an entry; the same event a second time adds nothing.
pub(super) fn record(view: &View<'_>, entry: &str, event: &SchedulerEnqueueEvent) -> rusqlite::Result<()> {
    let until = view.find(&sql::schedule::HISTORY_UNTIL, [entry], |row| row.get::<_, i64>(0))?;
    if until.is_some_and(|until| until <= view.now) {
        forget_history(view, entry)?;
    }
    let at = event.enqueue_time.as_ref().map_or(0, |time| time.seconds);
    let added = view.execute(&sql::schedule::RECORD, params![entry, at, event.encode_to_vec()])?;
    let added = i64::try_from(added).unwrap_or(0);
    let kept_until = view.now.saturating_add(HISTORY_MS);
    let n = count(view, entry, added, kept_until)?;
    if n > HISTORY {
        let gone = view.execute(&sql::schedule::TRIM, params![entry, n - HISTORY])?;
        count(view, entry, -i64::try_from(gone).unwrap_or(0), kept_until)?;
    }
    Ok(())
}

fn count(view: &View<'_>, entry: &str, change: i64, until: i64) -> rusqlite::Result<i64> {
    Ok(view.find(&sql::schedule::COUNT, params![entry, change, until], |row| row.get(0))?.unwrap_or(0))
}

/// Returns one page of the history of an entry, the newest first.
pub(super) fn history(view: &View<'_>, entry: &str, page: Page) -> rusqlite::Result<Vec<SchedulerEnqueueEvent>> {
    let which = params![entry, view.now, limit_of(page.size), limit_of(page.offset())];
    let rows = view.list(&sql::schedule::HISTORY, which, |row| row.get::<_, Vec<u8>>(0))?;
    Ok(rows.iter().filter_map(|row| SchedulerEnqueueEvent::decode(row.as_slice()).ok()).collect())
}

/// Forgets the history of an entry.
pub(super) fn forget_history(view: &View<'_>, entry: &str) -> rusqlite::Result<()> {
    view.execute(&sql::schedule::FORGET_ENQUEUED, [entry])?;
    view.execute(&sql::schedule::FORGET_HISTORY, [entry])?;
    Ok(())
}
