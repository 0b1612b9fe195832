//! Deletes a queue that is empty.

use crate::{broker::QueueDeleted, task::QueueName};

use super::super::{sql, tx::Tx};

/// Deletes all that is known of a queue without tasks.
pub(super) fn delete(tx: &mut Tx<'_>, queue: &QueueName) -> rusqlite::Result<QueueDeleted> {
    let Some(q) = tx.view.queue(queue)? else { return Ok(QueueDeleted::NotFound) };
    if tx.view.find(&sql::repair::HAS_TASKS, [q], |_| Ok(()))?.is_some() {
        return Ok(QueueDeleted::NotEmpty);
    }
    for forget in [
        &sql::repair::FORGET_ULOCK,
        &sql::repair::FORGET_STAT,
        &sql::repair::FORGET_TALLY,
        &sql::repair::FORGET_BATCH,
        &sql::repair::FORGET_QUEUE,
    ] {
        tx.view.execute(forget, [q])?;
    }
    tx.forget_queue(q);
    Ok(QueueDeleted::Done)
}
