//! Tasks one by one and page by page.

use rusqlite::params;

use crate::{
    broker::Page,
    task::{QueueName, TaskId, TaskInfo, TaskState},
};

use super::super::{row::TaskRow, sql, tx::View};

/// One page of one state.
pub(super) fn page(
    view: &View<'_>,
    queue: &QueueName,
    state: TaskState,
    page: Page,
) -> rusqlite::Result<Vec<TaskInfo>> {
    let (size, offset) = (number(page.size), number(page.offset()));
    let rows = if state == TaskState::Active {
        view.list(&sql::INSPECT_PAGE_ACTIVE, params![queue.as_str(), size, offset], TaskRow::read)?
    } else {
        view.list(&sql::INSPECT_PAGE, params![queue.as_str(), state.number(), size, offset], TaskRow::read)?
    };
    Ok(rows.into_iter().filter_map(|row| row.into_info(queue, view.now)).collect())
}

/// One task in whatever state.
pub(super) fn one(view: &View<'_>, queue: &QueueName, id: &TaskId) -> rusqlite::Result<Option<TaskInfo>> {
    let row = view.find(&sql::INSPECT_TASK, [queue.as_str(), id.as_str()], TaskRow::read)?;
    Ok(row.and_then(|row| row.into_info(queue, view.now)))
}

fn number(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
