//! Tasks one by one and page by page.

use rusqlite::params;

use crate::{
    broker::{Failure, Page},
    task::{GroupName, QueueName, TaskId, TaskInfo, TaskState},
};

use super::super::{
    row::{TaskRow, instant},
    sql,
    tx::{FAILURES, View},
};

/// One page of one state.
pub(super) fn page(
    view: &View<'_>,
    queue: &QueueName,
    state: TaskState,
    page: Page,
) -> rusqlite::Result<Vec<TaskInfo>> {
    let (size, offset) = (number(page.size), number(page.offset()));
    let name = queue.as_str();
    let rows = match state {
        TaskState::Active => view.list(&sql::INSPECT_PAGE_ACTIVE, params![name, size, offset], TaskRow::read)?,
        TaskState::Aggregating => {
            view.list(&sql::INSPECT_PAGE_AGGREGATING, params![name, size, offset], TaskRow::read)?
        }
        _ => view.list(&sql::INSPECT_PAGE, params![name, state.number(), size, offset], TaskRow::read)?,
    };
    Ok(infos(view, queue, rows))
}

/// One page of one group.
pub(super) fn group_page(
    view: &View<'_>,
    queue: &QueueName,
    group: &GroupName,
    page: Page,
) -> rusqlite::Result<Vec<TaskInfo>> {
    let (size, offset) = (number(page.size), number(page.offset()));
    let params = params![queue.as_str(), group.as_str(), size, offset];
    Ok(infos(view, queue, view.list(&sql::INSPECT_PAGE_GROUP, params, TaskRow::read)?))
}

/// How the last attempts of a task failed. The last error of the task may be of a program that kept no failures, or of
/// something that was no attempt.
pub(super) fn failures(view: &View<'_>, queue: &QueueName, id: &TaskId) -> rusqlite::Result<Vec<Failure>> {
    let failure = |number: i64, at: i64, error: String| {
        Failure::new(u32::try_from(number).unwrap_or(u32::MAX), instant(at), error)
    };
    let params = params![queue.as_str(), id.as_str(), FAILURES];
    let mut known: Vec<Failure> =
        view.list(&sql::INSPECT_FAILURES, params, |row| Ok(failure(row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let last = view.find(&sql::INSPECT_LAST_ERROR, params![queue.as_str(), id.as_str()], |row| {
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

fn infos(view: &View<'_>, queue: &QueueName, rows: Vec<TaskRow>) -> Vec<TaskInfo> {
    rows.into_iter().filter_map(|row| row.into_info(queue, view.now)).collect()
}

/// One task in whatever state.
pub(super) fn one(view: &View<'_>, queue: &QueueName, id: &TaskId) -> rusqlite::Result<Option<TaskInfo>> {
    let row = view.find(&sql::INSPECT_TASK, [queue.as_str(), id.as_str()], TaskRow::read)?;
    Ok(row.and_then(|row| row.into_info(queue, view.now)))
}

fn number(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
