//! Deletes completed and archived tasks that have been kept long enough.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rusqlite::params;

use crate::{
    broker::BrokerError,
    task::{QueueName, TaskState},
};

use super::super::{
    candidate::met_damage,
    command::{Priority, WriteCommand},
    inspect::count_of,
    row::{limit_of, text, text_or_null},
    sql,
    store::Store,
    tx::{TaskToDelete, View},
};

/// Most tasks deleted by one transaction.
const DELETES: usize = 250;
/// Most tasks that one call passes over, because they cannot be deleted.
const PASSED_OVER: usize = 250;

/// Deletes completed tasks whose retention has passed.
pub(super) async fn delete_expired(store: &Store, queue: &QueueName, limit: usize) -> Result<usize, BrokerError> {
    delete(store, queue, limit, TaskState::Completed, expired).await
}

/// Deletes at most `limit` archived tasks that are older than `max_age` or not among the newest `max_size`; returns how many.
pub(super) async fn trim_archive(
    store: &Store,
    queue: &QueueName,
    max_age: Duration,
    max_size: usize,
    limit: usize,
) -> Result<usize, BrokerError> {
    let find = move |view: &View<'_>, q, limit| superfluous(view, q, max_age, max_size, limit);
    delete(store, queue, limit, TaskState::Archived, find).await
}

/// Deletes the tasks that `find` finds, slice by slice, until a slice is not full or `limit` tasks are deleted. A slice that meets
/// a damaged page is rolled back as a whole. Then tasks are deleted one by one up to the one that cannot be deleted, which is
/// passed over; behind it slices are whole again. The error is returned if no task was deleted. The search ends after
/// [`PASSED_OVER`] such tasks, and where tasks cannot even be listed.
async fn delete(
    store: &Store,
    queue: &QueueName,
    limit: usize,
    state: TaskState,
    find: impl Fn(&View<'_>, i64, usize) -> rusqlite::Result<Vec<Old>> + Copy + Send + 'static,
) -> Result<usize, BrokerError> {
    let (mut deleted, mut passed_over, mut most) = (0, 0, DELETES);
    let mut damage = None;
    while deleted < limit {
        let slice = (limit - deleted).min(most);
        // The tasks that were passed over are still the first.
        let find = move |view: &View<'_>, q: i64, n: usize| {
            Ok::<_, rusqlite::Error>(find(view, q, n + passed_over)?.into_iter().skip(passed_over).collect::<Vec<_>>())
        };
        let (queue, look) = (queue.clone(), queue.clone());
        let is_listed = Arc::new(AtomicBool::new(false));
        let has_listed = Arc::clone(&is_listed);
        let command = WriteCommand::new(Priority::Forward, slice, move |tx| {
            let Some(q) = tx.view.queue(&queue)? else { return Ok(0) };
            let old = find(&tx.view, q, slice)?;
            has_listed.store(true, Ordering::Relaxed);
            for Old { seq, id, lock } in &old {
                tx.delete(&TaskToDelete { seq: *seq, q, state, id, lock: lock.as_deref() })?;
            }
            Ok(old.len())
        });
        let command = command.unless(move |view| {
            let Some(q) = view.queue(&look)? else { return Ok(Some(0)) };
            Ok(find(view, q, 1)?.is_empty().then_some(0))
        });
        let answer = store.write(command).await;
        if met_damage(&answer) && slice > 1 {
            most = 1;
            continue;
        }
        if met_damage(&answer) {
            damage = answer.err();
            // Where the list itself meets the damage, the next one does, too.
            if passed_over == PASSED_OVER || !is_listed.load(Ordering::Relaxed) {
                break;
            }
            (passed_over, most) = (passed_over + 1, DELETES);
            continue;
        }
        let now = answer?;
        deleted += now;
        if now < slice {
            break;
        }
    }
    match damage {
        Some(error) if deleted == 0 => Err(error),
        _ => Ok(deleted),
    }
}

/// Whether there is something to delete in a queue.
pub(super) fn is_anything(
    view: &View<'_>,
    queue: &QueueName,
    max_age: Duration,
    max_size: usize,
) -> rusqlite::Result<bool> {
    let Some(q) = view.queue(queue)? else { return Ok(false) };
    Ok(!expired(view, q, 1)?.is_empty() || !superfluous(view, q, max_age, max_size, 1)?.is_empty())
}

/// A task that has been kept long enough.
#[derive(Debug)]
struct Old {
    seq: i64,
    id: String,
    lock: Option<String>,
}

/// Returns completed tasks whose retention has passed. Their unique locks were freed when they succeeded.
fn expired(view: &View<'_>, q: i64, limit: usize) -> rusqlite::Result<Vec<Old>> {
    view.list(&sql::maintain::EXPIRED, [q, view.now, limit_of(limit)], |row| {
        Ok(Old { seq: row.get(0)?, id: String::new(), lock: None })
    })
}

/// Returns the oldest archived tasks that are too old or beyond the newest `max_size`.
fn superfluous(
    view: &View<'_>,
    q: i64,
    max_age: Duration,
    max_size: usize,
    limit: usize,
) -> rusqlite::Result<Vec<Old>> {
    let (archived, max_size) = (TaskState::Archived, limit_of(max_size));
    // The count may be too high, as after tasks were lost in a salvage, so it says only whether to look for the last task to delete.
    let cut: Option<(i64, i64)> = if count_of(view, q, archived)? > max_size {
        let place = params![q, archived.number(), max_size];
        view.find(&sql::inspect::PAGE_START_BACK, place, |row| Ok((row.get(0)?, row.get(1)?)))?
    } else {
        None
    };
    let oldest = view.list(&sql::maintain::OLDEST_ARCHIVED, [q, limit_of(limit)], |row| {
        Ok((row.get::<_, i64>(1)?, Old { seq: row.get(0)?, id: text(row, 2)?, lock: text_or_null(row, 3)? }))
    })?;
    let too_old = view.now.saturating_sub(i64::try_from(max_age.as_millis()).unwrap_or(i64::MAX));
    let is_over = |at: i64, seq: i64| at <= too_old || cut.is_some_and(|cut| (at, seq) <= cut);
    Ok(oldest.into_iter().filter(|(at, task)| is_over(*at, task.seq)).map(|(_, task)| task).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use rusqlite::{Error::SqliteFailure, ffi};

    use super::{
        super::super::{SqliteBroker, SqliteOptions},
        *,
    };
    use crate::broker::BrokerErrorKind;

    static LOOKS: AtomicUsize = AtomicUsize::new(0);

    fn in_a_damaged_page(_: &View<'_>, _: i64, _: usize) -> rusqlite::Result<Vec<Old>> {
        LOOKS.fetch_add(1, Ordering::SeqCst);
        Err(SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), None))
    }

    #[tokio::test]
    async fn a_list_in_a_damaged_page_is_not_read_for_each_task_that_could_be_passed_over() {
        let broker = SqliteBroker::in_memory(SqliteOptions::default()).await.unwrap();
        let queue = QueueName::new("default").unwrap();
        let name = queue.clone();
        let add = WriteCommand::new(Priority::Insert, 1, move |tx| tx.queue_or_new(&name));
        broker.store.write(add).await.unwrap();
        let answer = delete(&broker.store, &queue, 9, TaskState::Completed, in_a_damaged_page).await;
        assert_eq!(answer.unwrap_err().kind(), BrokerErrorKind::Corrupt);
        let looks = LOOKS.load(Ordering::SeqCst);
        assert!(looks < PASSED_OVER, "{looks}");
    }
}
