//! Ends runs (contract: `broker/settle.rs`); a run holds its task as long as row, server and token match.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::params;

use crate::{
    broker::{
        Action, BrokerError, RunKey, Settle, Settled, Settlement,
        settle::{run_has_ended, shortened},
    },
    task::{Progress, TaskState},
};

use super::{
    SqliteBroker,
    command::{Priority, WriteCommand},
    row::{after, extra, text_or_null},
    sql,
    tx::{TaskToDelete, Tx, View},
};

/// Most outcomes in one command.
const SLICE: usize = 256;

#[async_trait::async_trait]
impl Settle for SqliteBroker {
    async fn settle(&self, batch: &[Settlement]) -> Vec<Result<Settled, BrokerError>> {
        let mut answers = Vec::with_capacity(batch.len());
        for slice in batch.chunks(SLICE) {
            let slice: Arc<[Settlement]> = slice.into();
            let size = slice.len();
            let command = WriteCommand::new(Priority::Settle, size, move |tx| {
                slice.iter().map(|item| settle(tx, item)).collect()
            });
            let outcome: Result<Vec<Settled>, _> = self.store.write(command).await;
            match outcome {
                Ok(settled) => answers.extend(settled.into_iter().map(Ok)),
                Err(error) if error.is_unavailable() => {
                    // One time-out is enough for a call; the rest of the batch is not sent.
                    answers.resize_with(batch.len(), || Err(error.clone()));
                    return answers;
                }
                Err(error) => answers.extend((0..size).map(|_| Err(error.clone()))),
            }
        }
        answers
    }

    async fn write_result(&self, run: &RunKey, result: &Bytes) -> Result<Settled, BrokerError> {
        let result = result.clone();
        let set = move |tx: &Tx<'_>, task: &LeasedTask| {
            tx.view.execute(&sql::body::SET_RESULT, params![task.seq, &result[..]]).map(drop)
        };
        self.change_held(run, set).await
    }

    async fn save_checkpoint(&self, run: &RunKey, checkpoint: &Bytes) -> Result<Settled, BrokerError> {
        let checkpoint = checkpoint.clone();
        let set = move |tx: &Tx<'_>, task: &LeasedTask| {
            tx.view.execute(&sql::body::SET_CHECKPOINT, params![task.seq, &checkpoint[..]]).map(drop)
        };
        self.change_held(run, set).await
    }

    async fn checkpoint(&self, run: &RunKey) -> Result<Option<Bytes>, BrokerError> {
        let run = run.clone();
        let found = self.store.read(move |view| {
            let Some(leased) = LeasedTask::find(view, &run)? else { return Ok(None) };
            let saved = view.find(&sql::body::CHECKPOINT, [leased.seq], |row| row.get::<_, Option<Vec<u8>>>(0))?;
            Ok(Some(saved.flatten().map(Bytes::from)))
        });
        found.await?.ok_or_else(run_has_ended)
    }

    async fn free_lock(&self, run: &RunKey, key: &str) -> Result<Settled, BrokerError> {
        let (id, key) = (run.id.clone(), key.to_owned());
        let free = move |tx: &Tx<'_>, task: &LeasedTask| tx.free_lock(task.q, Some(&key), id.as_str());
        self.change_held(run, free).await
    }

    async fn write_progress(&self, run: &RunKey, progress: &Progress) -> Result<Settled, BrokerError> {
        let progress = progress.clone();
        let set = move |tx: &Tx<'_>, task: &LeasedTask| {
            tx.view.execute(&sql::settle::PROGRESS, params![task.seq, progress.fraction, progress.note]).map(drop)
        };
        self.change_held(run, set).await
    }
}

impl SqliteBroker {
    /// Has the writer change the task that `run` holds, if the run still holds it.
    async fn change_held(
        &self,
        run: &RunKey,
        change: impl Fn(&Tx<'_>, &LeasedTask) -> rusqlite::Result<()> + Send + 'static,
    ) -> Result<Settled, BrokerError> {
        let run = run.clone();
        self.change(move |tx| match LeasedTask::find(&tx.view, &run)? {
            Some(task) => change(tx, &task).map(|()| Settled::Ok),
            None => lost(&tx.view, &run),
        })
        .await
    }
}

/// A task that a run still holds.
#[derive(Debug)]
struct LeasedTask {
    seq: i64,
    q: i64,
    lock: Option<String>,
    /// Whether a later tick of its schedule, or a later enqueue with the same unique key, took the place of the task.
    is_replaced: bool,
}

impl LeasedTask {
    /// Finds the task, if `run` still holds it: the fence.
    fn find(view: &View<'_>, run: &RunKey) -> rusqlite::Result<Option<Self>> {
        view.find(&sql::settle::HELD, params![run.row, run.server, run.token.0, run.id.as_str()], |row| {
            let is_replaced = extra(row, 2)?.replaced;
            Ok(Self { seq: run.row, q: row.get(0)?, lock: text_or_null(row, 1)?, is_replaced })
        })
    }
}

fn settle(tx: &mut Tx<'_>, item: &Settlement) -> rusqlite::Result<Settled> {
    if done_at_once(tx, item)? {
        return Ok(Settled::Ok);
    }
    let Some(leased) = LeasedTask::find(&tx.view, &item.run)? else {
        return Ok(judge(receipt(&tx.view, &item.run)?, item));
    };
    let (seq, q, lock) = (leased.seq, leased.q, leased.lock.as_deref());
    let (now, id) = (tx.view.now, item.run.id.as_str());
    if leased.is_replaced && !matches!(item.action, Action::Done | Action::Complete { .. } | Action::Revoke { .. }) {
        tx.delete(&TaskToDelete { seq, q, state: TaskState::Active, id, lock })?;
        if matches!(item.action, Action::Archive { .. } | Action::Retry { counted: true, .. }) {
            tx.ended(q, true);
        }
        return Ok(Settled::Ok);
    }
    match &item.action {
        Action::Done => {
            tx.delete(&TaskToDelete { seq, q, state: TaskState::Active, id, lock })?;
            tx.ended(q, false);
            return Ok(Settled::Ok);
        }
        Action::Complete { result } => {
            if let Some(result) = result {
                tx.view.execute(&sql::body::SET_RESULT, params![seq, &result[..]])?;
            }
            complete(tx, item, &leased, None)?;
        }
        Action::Revoke { extra } => {
            tx.view.execute(&sql::body::SET_RESULT, params![seq, None::<&[u8]>])?;
            complete(tx, item, &leased, extra.to_bytes())?;
        }
        Action::Retry { delay, error, extra, .. } | Action::Defer { delay, error, extra } => {
            let error = error.as_deref().map(shortened);
            if let Some(error) = error {
                tx.note_failure(seq, error)?;
            }
            let (due, extra) = (after(now, *delay), extra.to_bytes());
            let counted = matches!(item.action, Action::Retry { counted: true, .. });
            let has_run = !matches!(item.action, Action::Defer { .. });
            tx.view.execute(&sql::settle::RETRY, params![seq, due, counted, error, now, extra, has_run])?;
            if counted {
                tx.ended(q, true);
            }
            tx.came(q, TaskState::Retry);
        }
        Action::Archive { error, extra } => {
            let error = shortened(error);
            tx.note_failure(seq, error)?;
            tx.view.execute(&sql::settle::ARCHIVE, params![seq, now, error, extra.to_bytes()])?;
            // A message that could not be read is replaced by one made in its place, so that people can look at it.
            tx.view.execute(&sql::body::SET_MESSAGE, params![seq, item.message.encode()])?;
            tx.free_lock_of_archived(q, lock, id, extra)?;
            tx.ended(q, true);
            tx.came(q, TaskState::Archived);
        }
        Action::Requeue => {
            let place = tx.head(q)?;
            tx.view.execute(&sql::settle::REQUEUE, [seq, place, now])?;
            tx.came(q, TaskState::Pending);
        }
    }
    tx.left(q, TaskState::Active);
    Ok(Settled::Ok)
}

/// Keeps a task until its retention is over; its extra facts stay as they are unless others are given.
fn complete(tx: &mut Tx<'_>, item: &Settlement, task: &LeasedTask, extra: Option<Vec<u8>>) -> rusqlite::Result<()> {
    let retention = item.message.retention.max(0);
    let expiry = tx.view.now.saturating_add(retention.saturating_mul(1_000));
    tx.view.execute(&sql::settle::COMPLETE, params![task.seq, expiry, retention, extra])?;
    tx.view.execute(&sql::body::FORGET_CHECKPOINT, [task.seq])?;
    tx.free_lock(task.q, task.lock.as_deref(), item.run.id.as_str())?;
    tx.ended(task.q, false);
    tx.came(task.q, TaskState::Completed);
    Ok(())
}

/// Ends a run that was a success and has nothing to leave behind, neither result nor lock. Returns `false` if nothing was
/// changed: then the general path finds out why.
fn done_at_once(tx: &mut Tx<'_>, item: &Settlement) -> rusqlite::Result<bool> {
    let run = &item.run;
    if item.action != Action::Done || !item.message.unique_key.is_empty() {
        return Ok(false);
    }
    let Some(q) = tx.queue(&run.queue)? else { return Ok(false) };
    if tx.view.execute(&sql::settle::DONE, params![run.row, run.server, run.token.0, run.id.as_str(), q])? == 0 {
        return Ok(false);
    }
    tx.view.execute(&sql::body::DELETE, [run.row])?;
    tx.effects.ended = true;
    tx.ended(q, false);
    tx.left(q, TaskState::Active);
    Ok(true)
}

/// Returns whether a task that a run does not hold any more is still there.
pub(super) fn lost(view: &View<'_>, run: &RunKey) -> rusqlite::Result<Settled> {
    Ok(if receipt(view, run)?.is_some() { Settled::Fenced } else { Settled::Gone })
}

/// Finds the task of the run's id: its row, and the run that settled it last.
fn receipt(view: &View<'_>, run: &RunKey) -> rusqlite::Result<Option<(i64, i64)>> {
    view.find(&sql::settle::RECEIPT, params![run.queue.as_str(), run.id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Decides why an outcome was refused (docs/design/fence.md#receipts): our own earlier send left a receipt, or, if it deleted
/// the task, mostly another row or none. An outcome that was not sent before cannot have been done before: then the receipt is of
/// another outcome of the run.
fn judge(found: Option<(i64, i64)>, item: &Settlement) -> Settled {
    let run = &item.run;
    let done_again = item.resend && item.action == Action::Done;
    match found {
        None if done_again => Settled::Ok,
        None => Settled::Gone,
        // 0 belongs to a task that was never settled.
        Some((_, last)) if item.resend && last == run.token.0 && last != 0 => Settled::Ok,
        Some((row, _)) if done_again && row != run.row => Settled::Ok,
        Some(_) => Settled::Fenced,
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        broker::RunToken,
        task::{QueueName, TaskId, TaskMessage},
    };

    use super::*;

    #[test]
    fn a_refused_settlement_is_explained_by_the_stored_task() {
        let run = RunKey {
            queue: QueueName::from_wire("q"),
            id: TaskId::from_wire("a"),
            token: RunToken(5_000),
            server: 1,
            row: 3,
        };
        let sent = |run: &RunKey, action: Action, resend| {
            let message = Arc::new(TaskMessage::default());
            Settlement { run: run.clone(), message, action, resend }
        };
        for (found, first, requeue_again, done_again) in [
            (None, Settled::Gone, Settled::Gone, Settled::Ok),
            (Some((3, 0)), Settled::Fenced, Settled::Fenced, Settled::Fenced),
            (Some((3, 5_000)), Settled::Fenced, Settled::Ok, Settled::Ok),
            (Some((4, 0)), Settled::Fenced, Settled::Fenced, Settled::Ok),
        ] {
            let judged = |action, resend| judge(found, &sent(&run, action, resend));
            assert_eq!((judged(Action::Done, false), judged(Action::Requeue, false)), (first, first), "{found:?}");
            assert_eq!(judged(Action::Requeue, true), requeue_again, "{found:?}");
            assert_eq!(judged(Action::Done, true), done_again, "{found:?}");
        }
        let guessed = sent(&RunKey { token: RunToken(0), ..run }, Action::Requeue, true);
        assert_eq!(judge(Some((3, 0)), &guessed), Settled::Fenced, "no receipt is not a receipt of 0");
    }
}
