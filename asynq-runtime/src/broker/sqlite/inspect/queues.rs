//! Lists queues, and reports the state of each.

use std::{collections::BTreeMap, time::Duration};

use chrono::{DateTime, NaiveDate};
use rusqlite::params;

use crate::{
    broker::{DayStats, LockInfo, LockPage, QueueStats},
    task::{QueueName, TaskId, TaskState},
};

use super::super::{
    position,
    row::{instant, text},
    sql,
    tx::{ALL_TIME, STATISTICS_DAYS, View, day},
};

/// How many tasks of a state are weighed.
const SAMPLE: i64 = 20;

/// Bytes that the file needs for a task beside its contents: numbers, two rows, its place in the indexes (measured: 310 bytes
/// for a task with 170 of contents).
const OVERHEAD: u64 = 140;

/// Returns every queue that ever had a task, by name.
pub(super) fn names(view: &View<'_>) -> rusqlite::Result<Vec<QueueName>> {
    view.list(&sql::inspect::QUEUES, [], |row| Ok(QueueName::from_wire(&text(row, 0)?)))
}

/// Returns whether the queue ever had a task.
pub(super) fn is_known(view: &View<'_>, queue: &QueueName) -> rusqlite::Result<bool> {
    Ok(view.find(&sql::inspect::KNOWN, [queue.as_str()], |_| Ok(()))?.is_some())
}

/// Returns the queues that have a task of this id, by name.
pub(super) fn of_task(view: &View<'_>, id: &TaskId) -> rusqlite::Result<Vec<QueueName>> {
    view.list(&sql::inspect::QUEUES_OF, [id.as_str()], |row| Ok(QueueName::from_wire(&text(row, 0)?)))
}

/// Whether no task of `queues` waits, runs, or is in a set.
pub(in super::super) fn is_idle(view: &View<'_>, queues: &[QueueName]) -> rusqlite::Result<bool> {
    for queue in queues {
        let Some(q) = view.queue(queue)? else { continue };
        if view.find(&sql::inspect::UNENDED, [q], |_| Ok(()))?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the numbers of a queue at this moment.
pub(super) fn stats(view: &View<'_>, queue: &QueueName) -> rusqlite::Result<QueueStats> {
    let mut stats = QueueStats::empty(queue.clone(), instant(view.now));
    let found = view.find(&sql::inspect::QUEUE, [queue.as_str()], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?))
    })?;
    let Some((q, paused_at)) = found else { return Ok(stats) };
    stats.paused = paused_at.is_some();
    for (state, n) in counts(view, q)? {
        match state {
            TaskState::Active => stats.active = n,
            TaskState::Pending => stats.pending = n,
            TaskState::Scheduled => stats.scheduled = n,
            TaskState::Retry => stats.retry = n,
            TaskState::Archived => stats.archived = n,
            TaskState::Completed => stats.completed = n,
            TaskState::Aggregating => stats.aggregating = n,
        }
        stats.size += n;
    }
    (stats.processed, stats.failed) = counters(view, q, day(view.now))?;
    (stats.processed_total, stats.failed_total) = counters(view, q, ALL_TIME)?;
    stats.latency = Duration::from_millis(count(wait_of_next(view, q)?));
    Ok(stats)
}

/// Returns for how many milliseconds the next task waits. A due task that no server forwards is late as well, from the next whole
/// second on: Go's due times on Redis have no smaller parts.
fn wait_of_next(view: &View<'_>, q: i64) -> rusqlite::Result<i64> {
    let mut wait = 0;
    for state in [TaskState::Pending, TaskState::Scheduled, TaskState::Retry] {
        let first = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let first: Option<(i64, i64)> = view.find(&sql::inspect::FIRST, params![q, state.number()], first)?;
        let Some((since, at)) = first else { continue };
        let since = if state == TaskState::Pending { since } else { at.saturating_add(999) / 1000 * 1000 };
        wait = wait.max(view.now.saturating_sub(since));
    }
    Ok(wait)
}

/// Returns the counters of the last days, today first; a day without counters is all zero.
pub(super) fn history(view: &View<'_>, queue: &QueueName, days: usize) -> rusqlite::Result<Vec<DayStats>> {
    let (today, days) = (day(view.now), i64::try_from(days).map_or(STATISTICS_DAYS, |days| days.min(STATISTICS_DAYS)));
    let params = params![queue.as_str(), today - days + 1, today];
    let known = view.list(&sql::inspect::HISTORY, params, |row| {
        Ok((row.get::<_, i64>(0)?, (count(row.get(1)?), count(row.get(2)?))))
    })?;
    let known: BTreeMap<_, _> = known.into_iter().collect();
    let of_day = |day| {
        let (processed, failed) = known.get(&day).copied().unwrap_or((0, 0));
        DayStats::new(date(day), processed, failed)
    };
    Ok((0..days).map(|ago| of_day(today - ago)).collect())
}

/// Returns about how many bytes a queue takes in the file.
pub(super) fn weight(view: &View<'_>, queue: &QueueName) -> rusqlite::Result<u64> {
    let Some(q) = view.queue(queue)? else { return Ok(0) };
    let mut bytes = 0;
    for (state, n) in counts(view, q)? {
        let average =
            view.find(&sql::inspect::WEIGHT, params![q, state.number(), SAMPLE], |row| row.get::<_, Option<f64>>(0))?;
        if let Some(average) = average.flatten() {
            // An average of lengths is not a negative number, and far below the numbers that a float cannot hold.
            bytes += n * (average as u64 + OVERHEAD);
        }
    }
    Ok(bytes)
}

/// Returns how many tasks are in one state.
pub(in super::super) fn count_of(view: &View<'_>, q: i64, state: TaskState) -> rusqlite::Result<i64> {
    let counts = counts(view, q)?;
    Ok(counts.iter().find(|(of, _)| *of == state).map_or(0, |(_, n)| n.cast_signed()))
}

/// Returns how many tasks are in each state that was ever used.
fn counts(view: &View<'_>, q: i64) -> rusqlite::Result<Vec<(TaskState, u64)>> {
    let counts = view.list(&sql::inspect::COUNTS, [q], |row| {
        Ok(TaskState::from_number(row.get(0)?).zip(Some(count(row.get(1)?))))
    })?;
    Ok(counts.into_iter().flatten().collect())
}

fn counters(view: &View<'_>, q: i64, day: i64) -> rusqlite::Result<(u64, u64)> {
    let found = view.find(&sql::inspect::STAT, [q, day], |row| Ok((count(row.get(0)?), count(row.get(1)?))))?;
    Ok(found.unwrap_or((0, 0)))
}

/// Returns the date of a day counted from 1970.
fn date(day: i64) -> NaiveDate {
    day.checked_mul(86_400).and_then(|s| DateTime::from_timestamp(s, 0)).map_or(NaiveDate::MAX, |t| t.date_naive())
}

fn count(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

/// Most locks of one page.
const LOCKS: i64 = 1000;

/// Returns one page of the locks of a queue, behind the key `after`.
pub(super) fn locks(view: &View<'_>, queue: &QueueName, after: &[u8]) -> rusqlite::Result<LockPage> {
    let Some(q) = view.queue(queue)? else { return Ok(LockPage::default()) };
    let mut last = Vec::new();
    let locks = view.list(&sql::lock::PAGE, params![q, after, view.now, LOCKS], |row| {
        row.get_ref(0)?.as_bytes()?.clone_into(&mut last);
        Ok(LockInfo {
            key: text(row, 0)?,
            holder: TaskId::from_wire(&text(row, 1)?),
            state: row.get::<_, Option<i64>>(3)?.and_then(TaskState::from_number),
            until: Some(instant(row.get(2)?)),
        })
    })?;
    let next = (i64::try_from(locks.len()) == Ok(LOCKS)).then(|| position::write(&last));
    Ok(LockPage { locks, next })
}
