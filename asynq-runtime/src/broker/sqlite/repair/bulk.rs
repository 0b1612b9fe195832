//! Changes many tasks, a slice at a time.

use crate::{
    broker::{BrokerError, BulkAction, BulkSlice, Chosen},
    task::QueueName,
};

use rusqlite::params;

use super::super::{
    command::{Priority, WriteCommand},
    row::limit_of,
    sql,
    store::Store,
    stored_task::StoredTask,
    tx::View,
};

/// Most tasks of one slice.
const SLICE: usize = 100;

/// Does `action` to the first of the chosen tasks.
pub(super) async fn change(
    store: &Store,
    queue: &QueueName,
    chosen: &Chosen,
    action: BulkAction,
    limit: usize,
) -> Result<BulkSlice, BrokerError> {
    let limit = limit.min(SLICE);
    if !action.fits(chosen.state()) {
        return Ok(BulkSlice::default());
    }
    let (queue, chosen) = (queue.clone(), chosen.clone());
    let (look_queue, look_chosen) = (queue.clone(), chosen.clone());
    let command = WriteCommand::new(Priority::Settle, limit, move |tx| {
        let Some(q) = tx.view.queue(&queue)? else { return Ok(BulkSlice::default()) };
        let mut tasks = list(&tx.view, q, &chosen, limit + 1)?;
        let more = tasks.len() > limit;
        tasks.truncate(limit);
        for task in &tasks {
            task.change(tx, action)?;
        }
        Ok(BulkSlice { changed: tasks.len(), ghosts: 0, more })
    });
    let command = command.unless(move |view| {
        let Some(q) = view.queue(&look_queue)? else { return Ok(Some(BulkSlice::default())) };
        Ok(list(view, q, &look_chosen, 1)?.is_empty().then(BulkSlice::default))
    });
    store.write(command).await
}

fn list(view: &View<'_>, q: i64, chosen: &Chosen, n: usize) -> rusqlite::Result<Vec<StoredTask>> {
    let n = limit_of(n);
    let read = |row: &rusqlite::Row<'_>| StoredTask::read(q, row);
    match chosen {
        Chosen::InState(state) => view.list(&sql::repair::IN_STATE, params![q, state.number(), n], read),
        Chosen::InGroup(group) => view.list(&sql::repair::IN_GROUP, params![q, group.as_str(), n], read),
    }
}
