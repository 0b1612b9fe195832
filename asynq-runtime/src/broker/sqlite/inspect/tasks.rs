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

/// How the last attempts of a task failed.
pub(super) fn failures(view: &View<'_>, queue: &QueueName, id: &TaskId) -> rusqlite::Result<Vec<Failure>> {
    view.list(&sql::INSPECT_FAILURES, params![queue.as_str(), id.as_str(), FAILURES], |row| {
        let number = u32::try_from(row.get::<_, i64>(0)?).unwrap_or(u32::MAX);
        Ok(Failure::new(number, instant(row.get(1)?), row.get::<_, String>(2)?))
    })
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
