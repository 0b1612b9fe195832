//! Which queues there are, and how each is doing.

use std::time::Duration;

use crate::{
    broker::QueueStats,
    task::{QueueName, TaskState},
};

use super::super::{
    row::instant,
    sql,
    tx::{ALL_TIME, View, day},
};

/// Every queue that ever had a task, by name.
pub(super) fn names(view: &View<'_>) -> rusqlite::Result<Vec<QueueName>> {
    view.list(&sql::INSPECT_QUEUES, [], |row| Ok(QueueName::from_wire(&row.get::<_, String>(0)?)))
}

/// A queue at this moment.
pub(super) fn stats(view: &View<'_>, queue: &QueueName) -> rusqlite::Result<QueueStats> {
    let mut stats = QueueStats::empty(queue.clone(), instant(view.now));
    let found = view.find(&sql::INSPECT_QUEUE, [queue.as_str()], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?))
    })?;
    let Some((q, paused_at)) = found else { return Ok(stats) };
    stats.paused = paused_at.is_some();
    let counts = view.list(&sql::INSPECT_COUNTS, [q], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    for (state, n) in counts {
        let n = count(n);
        match TaskState::from_number(state) {
            Some(TaskState::Active) => stats.active = n,
            Some(TaskState::Pending) => stats.pending = n,
            Some(TaskState::Scheduled) => stats.scheduled = n,
            Some(TaskState::Retry) => stats.retry = n,
            Some(TaskState::Archived) => stats.archived = n,
            Some(TaskState::Completed) => stats.completed = n,
            Some(TaskState::Aggregating) => stats.aggregating = n,
            None => continue,
        }
        stats.size += n;
    }
    (stats.processed, stats.failed) = counters(view, q, day(view.now))?;
    (stats.processed_total, stats.failed_total) = counters(view, q, ALL_TIME)?;
    let since: Option<i64> = view.find(&sql::INSPECT_OLDEST_PENDING, [q], |row| row.get(0))?;
    stats.latency = since.map_or(Duration::ZERO, |since| Duration::from_millis(count(view.now.saturating_sub(since))));
    Ok(stats)
}

fn counters(view: &View<'_>, q: i64, day: i64) -> rusqlite::Result<(u64, u64)> {
    let found = view.find(&sql::INSPECT_STAT, [q, day], |row| Ok((count(row.get(0)?), count(row.get(1)?))))?;
    Ok(found.unwrap_or((0, 0)))
}

fn count(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}
