//! Tasks one by one and page by page.

use rusqlite::params;

use crate::{
    broker::{Failure, Page, TaskBrief},
    task::{GroupName, QueueName, TaskId, TaskInfo, TaskState},
};

use super::{
    super::{
        row::{TaskRow, instant, limit_of},
        sql,
        tx::{FAILURES, View},
    },
    queues::counts,
};

/// Returns one page of the tasks in one state, or of one group, with at most `most` bytes of each payload and result.
pub(super) fn page(
    view: &View<'_>,
    queue: &QueueName,
    state: TaskState,
    group: Option<&GroupName>,
    page: Page,
    most: Option<usize>,
) -> rusqlite::Result<Vec<TaskBrief>> {
    let Some(q) = view.queue(queue)? else { return Ok(Vec::new()) };
    let (size, offset) = (limit_of(page.size), limit_of(page.offset()));
    let read = reader(view, queue, most);
    let rows = match (group, state) {
        (Some(group), _) => page_of_group(view, q, group, (size, offset), read)?,
        (None, TaskState::Active) => view.list(&sql::inspect::PAGE_ACTIVE, [q, size, offset], read)?,
        (None, _) => page_of_state(view, q, state, (size, offset), read)?,
    };
    Ok(rows.into_iter().flatten().collect())
}

/// Returns a function that reads a row and cuts its task before the next row is read; `None` for a message that cannot be
/// read.
fn reader<'a>(
    view: &'a View<'_>,
    queue: &'a QueueName,
    most: Option<usize>,
) -> impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<Option<TaskBrief>> + 'a {
    move |row| {
        let task = TaskRow::read(view, row)?.into_info(queue, view.now);
        Ok(task.map(|task| TaskBrief::within(task, most)))
    }
}

/// Looks up where the page begins first, so that no message before the page is read, and the index only from the nearer end. A page of
/// aggregating tasks is without those that a set has taken out.
fn page_of_state<T>(
    view: &View<'_>,
    q: i64,
    state: TaskState,
    (size, offset): (i64, i64),
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let number = state.number();
    let [page, start, start_back] = if state == TaskState::Aggregating {
        [
            &sql::inspect::PAGE_AGGREGATING,
            &sql::inspect::PAGE_AGGREGATING_START,
            &sql::inspect::PAGE_AGGREGATING_START_BACK,
        ]
    } else {
        [&sql::inspect::PAGE, &sql::inspect::PAGE_START, &sql::inspect::PAGE_START_BACK]
    };
    let start = match way(offset, count(view, q, state)?) {
        Way::First => FIRST,
        Way::Forward(before) => view.find(start, params![q, number, before], key)?,
        Way::Back(after) => view.find(start_back, params![q, number, after], key)?,
    };
    let Some((at, seq)) = start else { return Ok(Vec::new()) };
    view.list(page, params![q, number, size, at, seq], read)
}

/// A key before every task.
const FIRST: Option<(i64, i64)> = Some((i64::MIN, i64::MIN));

fn count(view: &View<'_>, q: i64, state: TaskState) -> rusqlite::Result<i64> {
    let counts = counts(view, q)?;
    Ok(counts.iter().find(|(of, _)| *of == state).map_or(0, |(_, n)| i64::try_from(*n).unwrap_or(i64::MAX)))
}

fn key(row: &rusqlite::Row<'_>) -> rusqlite::Result<(i64, i64)> {
    Ok((row.get(0)?, row.get(1)?))
}

/// From which end the first task of a page is counted.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// The page begins with the first task of all.
    First,
    /// This many tasks come before the page.
    Forward(i64),
    /// This many tasks come after the first task of the page.
    Back(i64),
}

/// Returns the shorter way to a page among `count` tasks. Behind `count`, which may be wrong, the way goes forward, so that the
/// tasks themselves decide.
fn way(offset: i64, count: i64) -> Way {
    match offset {
        ..=0 => Way::First,
        _ if offset < count && offset > count / 2 => Way::Back(count - 1 - offset),
        _ => Way::Forward(offset),
    }
}

/// Reads a page of the tasks of one group. The tasks of a group are not counted anywhere, so the start is looked up from the
/// front.
fn page_of_group<T>(
    view: &View<'_>,
    q: i64,
    group: &GroupName,
    (size, offset): (i64, i64),
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let group = group.as_str();
    let start = match offset {
        ..=0 => FIRST,
        _ => view.find(&sql::inspect::PAGE_GROUP_START, params![q, group, offset], key)?,
    };
    let Some((at, seq)) = start else { return Ok(Vec::new()) };
    view.list(&sql::inspect::PAGE_GROUP, params![q, group, size, at, seq], read)
}

/// Returns how the last attempts of a task failed. The last error of the task may come from a program that kept no failures, or
/// from something that was not an attempt.
pub(super) fn failures(view: &View<'_>, queue: &QueueName, id: &TaskId) -> rusqlite::Result<Vec<Failure>> {
    let failure = |number: i64, at: i64, error: String| {
        Failure::new(u32::try_from(number).unwrap_or(u32::MAX), instant(at), error)
    };
    let params = params![queue.as_str(), id.as_str(), FAILURES];
    let mut known: Vec<Failure> =
        view.list(&sql::inspect::FAILURES, params, |row| Ok(failure(row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let last = view.find(&sql::inspect::LAST_ERROR, params![queue.as_str(), id.as_str()], |row| {
        Ok((row.get::<_, i64>(2)?, row.get(1)?, row.get(0)?))
    })?;
    if let Some((retried, at, error)) = last {
        let newest = known.first();
        if newest.is_none_or(|newest| newest.at < instant(at)) {
            let after = newest.map_or(1, |newest| i64::from(newest.number) + 1);
            known.insert(0, failure(retried.max(after), at, error));
        }
    }
    known.truncate(usize::try_from(FAILURES).unwrap_or_default());
    Ok(known)
}

/// Returns one task, in any state.
pub(super) fn one(view: &View<'_>, queue: &QueueName, id: &TaskId) -> rusqlite::Result<Option<TaskInfo>> {
    let row = view.find(&sql::inspect::TASK, [queue.as_str(), id.as_str()], |row| TaskRow::read(view, row))?;
    Ok(row.and_then(|row| row.into_info(queue, view.now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_reached_from_the_nearer_end() {
        for (offset, count, expected) in [
            (0, 0, Way::First),
            (0, 100, Way::First),
            (30, 100, Way::Forward(30)),
            (50, 100, Way::Forward(50)),
            (51, 100, Way::Back(48)),
            (99, 100, Way::Back(0)),
            (100, 100, Way::Forward(100)),
            (i64::MAX, 100, Way::Forward(i64::MAX)),
            (1, 2, Way::Forward(1)),
        ] {
            assert_eq!(way(offset, count), expected, "{offset} of {count}");
        }
    }
}
