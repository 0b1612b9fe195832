//! Archives tasks whose messages lie in a damaged page of the file, so that they hold up no other.

use crate::{
    broker::{BrokerError, BrokerErrorKind, Run, Wanted},
    task::{QueueName, TaskState},
};

use super::{
    super::{
        SqliteBroker,
        command::{Priority, WriteCommand},
        error::is_damaged,
        sql,
        tx::View,
    },
    Candidate, MOST,
};

impl SqliteBroker {
    /// After a dequeue that failed because of a damaged page: archives the next tasks whose messages lie in one, so that the next
    /// dequeue takes those behind. They are looked for outside of the transaction, in which SQLite writes nothing after such a
    /// failure.
    pub(super) async fn set_damaged_aside(&self, wanted: &[Wanted], answer: &Result<Vec<Run>, BrokerError>) {
        if !answer.as_ref().is_err_and(|error| error.kind() == BrokerErrorKind::Corrupt) {
            return;
        }
        let wanted = wanted.to_vec();
        let look = self.store.read(move |view| damaged(view, &wanted)).await;
        let Ok(found) = look.inspect_err(|error| tracing::debug!("no damaged task is found: {error}")) else { return };
        let command = WriteCommand::new(Priority::Settle, found.len().max(1), move |tx| {
            for (queue, seq) in &found {
                let Some(q) = tx.queue(queue)? else { continue };
                // The task may have been taken out of line meanwhile.
                let next = next_without_message(&tx.view, q, MOST)?;
                if let Some(candidate) = next.into_iter().find(|candidate| candidate.seq == *seq) {
                    tx.left(q, TaskState::Pending);
                    candidate.set_aside(tx, q)?;
                    tx.came(q, TaskState::Archived);
                }
            }
            Ok(())
        });
        if let Err(error) = self.store.write(command).await {
            tracing::warn!("tasks in a damaged page cannot be archived: {error}");
        }
    }
}

/// Returns the next tasks of these queues whose messages cannot be read, each with its queue.
fn damaged(view: &View<'_>, wanted: &[Wanted]) -> rusqlite::Result<Vec<(QueueName, i64)>> {
    let mut damaged = Vec::new();
    for Wanted { queue, .. } in wanted {
        let Some(q) = view.queue(queue)? else { continue };
        for candidate in next_without_message(view, q, MOST)? {
            match view.find(&sql::body::MESSAGE, [candidate.seq], |row| row.get::<_, Vec<u8>>(0)) {
                Err(error) if is_damaged(&error) => damaged.push((queue.clone(), candidate.seq)),
                message => drop(message?),
            }
        }
    }
    Ok(damaged)
}

fn next_without_message(view: &View<'_>, q: i64, most: usize) -> rusqlite::Result<Vec<Candidate>> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    view.list(&sql::consume::NEXT_WITHOUT_MESSAGE, [q, most], Candidate::read)
}
