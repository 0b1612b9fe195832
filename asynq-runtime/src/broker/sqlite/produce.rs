//! Puts tasks into the file (contract: `broker/produce.rs`).

mod replace;

use std::{collections::VecDeque, sync::Arc};

use rusqlite::params;

use crate::{
    broker::{NewTask, Placed, Produce, Refused, When, due_ms, part},
    task::{GroupName, TaskId, TaskState},
};

use super::{
    SqliteBroker,
    command::{Priority, WriteCommand},
    row::{after, instant, text},
    sql,
    stored_task::StoredTask,
    tx::{Tx, View},
};

/// Most commands of one call at the writer: the next is prepared while one is stored.
const AHEAD: usize = 2;

#[async_trait::async_trait]
impl Produce for SqliteBroker {
    async fn enqueue_each(&self, tasks: &mut (dyn Iterator<Item = NewTask> + Send)) -> Vec<Result<Placed, Refused>> {
        let mut answers = Vec::new();
        let mut tasks = tasks.map(Item::new).peekable();
        let mut sent = VecDeque::with_capacity(AHEAD);
        let mut unavailable = None;
        loop {
            while sent.len() < AHEAD && unavailable.is_none() {
                let slice: Arc<[Item]> = part(&mut tasks, |item| item.bytes.len()).into();
                let size = slice.len();
                if size == 0 {
                    break;
                }
                let look = Arc::clone(&slice);
                let command = WriteCommand::new(Priority::Insert, size, move |tx| {
                    slice.iter().map(|item| item.insert(tx)).collect()
                });
                // If every task is refused, nothing is written and no call waits for the disk.
                let command = command.unless(move |view| {
                    let refusals = look.iter().map(|item| item.meets_holder(view).map(Result::err));
                    let refusals: Option<Vec<Refused>> = refusals.collect::<rusqlite::Result<_>>()?;
                    Ok(refusals.map(|refusals| refusals.into_iter().map(Err).collect()))
                });
                let begun = self.store.begin::<Vec<Result<Placed, Refused>>>(command, Arc::default()).await;
                unavailable = begun.as_ref().err().filter(|error| error.is_unavailable()).cloned();
                sent.push_back((size, begun));
            }
            let Some((size, sent)) = sent.pop_front() else { break };
            let outcome = match sent {
                Ok(sent) => self.store.done(sent).await,
                Err(error) => Err(error),
            };
            match outcome {
                Ok(placed) => answers.extend(placed),
                Err(error) => {
                    answers.extend((0..size).map(|_| Err(Refused::Broker(error.clone()))));
                    if error.is_unavailable() {
                        // One time-out is enough for a call: no further slice is sent.
                        unavailable = Some(error);
                    }
                }
            }
        }
        if let Some(error) = unavailable {
            answers.extend(tasks.map(|_| Err(Refused::Broker(error.clone()))));
        }
        answers
    }
}

/// A task with its message encoded once, however often the transaction is repeated.
#[derive(Debug)]
pub(super) struct Item {
    task: NewTask,
    bytes: Vec<u8>,
    extra: Option<Vec<u8>>,
}

impl Item {
    pub(super) fn new(task: NewTask) -> Self {
        Self { bytes: task.message.encode(), extra: task.extra.to_bytes(), task }
    }

    /// Stores the task, or changes nothing.
    pub(super) fn insert(&self, tx: &mut Tx<'_>) -> rusqlite::Result<Result<Placed, Refused>> {
        let NewTask { message, queue, id, unique, group, .. } = &self.task;
        let holder = match self.meets_holder(&tx.view)? {
            Ok(holder) => holder,
            Err(refused) => return Ok(Err(refused)),
        };
        if let Some(holder) = holder.as_ref().filter(|holder| holder.state != TaskState::Active) {
            return replace::waiting(tx, &self.task, holder).map(Ok);
        }
        let (when, extra) = replace::bounded(&self.task, tx.view.now, None);
        let extra = extra.map_or_else(|| self.extra.clone(), |extra| extra.to_bytes());
        let (state, due) = place(when, group.is_some(), tx.view.now);
        let q = tx.queue_or_new(queue)?;
        let at = if state == TaskState::Pending { tx.tail(q, false)? } else { due };
        let inserted = tx.view.execute(
            &sql::produce::INSERT,
            params![
                q,
                state.number(),
                at,
                tx.view.now,
                id.as_str(),
                message.r#type,
                message.retried,
                message.retry,
                message.timeout,
                message.deadline,
                message.retention,
                unique.as_ref().map(|lock| lock.key.as_str()),
                Some(&message.error_msg).filter(|error| !error.is_empty()),
                (message.last_failed_at != 0).then(|| message.last_failed_at.saturating_mul(1_000)),
                extra,
                group.as_ref().map(GroupName::as_str),
            ],
        )?;
        if inserted == 0 {
            return self.meets_itself(&tx.view, q);
        }
        let seq = tx.view.last_row();
        if let Some(lock) = unique {
            let until = after(due, lock.ttl);
            if let Some(holder) = &holder {
                holder.mark_replaced(&tx.view)?;
                tx.view.execute(&sql::lock::TRANSFER, params![q, lock.key, id.as_str(), until])?;
            } else {
                // No other task holds it: `meets_holder` has looked.
                tx.view.execute(&sql::lock::TAKE, params![q, lock.key, id.as_str(), until, tx.view.now])?;
            }
        }
        tx.view.execute(&sql::body::STORE, params![seq, self.bytes])?;
        tx.came(q, state);
        Ok(Ok(Placed { state, process_at: instant(due), replaced: None }))
    }

    /// Returns the task that this one replaces, if there is one, or why this one is not stored: it cannot replace the task that holds
    /// its lock.
    fn meets_holder(&self, view: &View<'_>) -> rusqlite::Result<Result<Option<StoredTask>, Refused>> {
        let Some(id) = lock_holder(&self.task, view)? else { return Ok(Ok(None)) };
        let replaced = if self.task.replaces.is_some() { replace::find(&self.task, &id, view)? } else { None };
        Ok(replaced.map(Some).ok_or_else(|| Refused::Duplicate { holder: Some(TaskId::from_wire(&id)) }))
    }

    /// Returns the answer for an id that is taken, by our own first send, whose answer was lost, or by another task.
    fn meets_itself(&self, view: &View<'_>, q: i64) -> rusqlite::Result<Result<Placed, Refused>> {
        let found = view.find(&sql::produce::TAKEN_BY, params![q, self.task.id.as_str()], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, Option<Vec<u8>>>(2)?))
        })?;
        Ok(match found {
            Some((state, at, Some(bytes))) if self.task.id_is_ours && bytes == self.bytes => {
                Ok(match TaskState::from_number(state) {
                    Some(state @ (TaskState::Scheduled | TaskState::Aggregating)) => {
                        Placed { state, process_at: instant(at), replaced: None }
                    }
                    _ => Placed { state: TaskState::Pending, process_at: instant(view.now), replaced: None },
                })
            }
            _ => Err(Refused::IdConflict),
        })
    }
}

/// Returns the id of the task that holds the lock that `task` needs.
fn lock_holder(task: &NewTask, view: &View<'_>) -> rusqlite::Result<Option<String>> {
    let NewTask { queue, id, unique: Some(lock), .. } = task else { return Ok(None) };
    let Some(q) = view.queue(queue)? else { return Ok(None) };
    view.find(&sql::lock::HELD, params![q, lock.key, id.as_str(), view.now], |row| text(row, 0))
}

/// Takes a unique lock for `id` until `until`, or returns its holder.
pub(super) fn take_lock(
    view: &View<'_>,
    q: i64,
    key: &str,
    id: &str,
    until: i64,
) -> rusqlite::Result<Result<(), Option<TaskId>>> {
    if view.execute(&sql::lock::TAKE, params![q, key, id, until, view.now])? > 0 {
        return Ok(Ok(()));
    }
    let holder = view.find(&sql::lock::HOLDER, params![q, key], |row| text(row, 0))?;
    Ok(Err(holder.as_deref().map(TaskId::from_wire)))
}

/// Returns in which state a task starts, and when it is due; a task that starts in a group joins it now.
fn place(when: When, grouped: bool, now: i64) -> (TaskState, i64) {
    let due = match when {
        When::Now => now,
        When::In(delay) => after(now, delay),
        When::At(at) => due_ms(at),
    };
    match grouped {
        _ if due > now => (TaskState::Scheduled, due),
        true => (TaskState::Aggregating, now),
        false => (TaskState::Pending, now),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_a_later_time_makes_a_task_scheduled_and_else_a_group_lets_it_wait_there() {
        use TaskState::{Aggregating, Pending, Scheduled};
        for (when, expected) in [
            (When::Now, (Pending, 1_000)),
            (When::In(Duration::ZERO), (Pending, 1_000)),
            (When::In(Duration::from_nanos(1)), (Scheduled, 1_001)),
            (When::At(instant(999)), (Pending, 1_000)),
            (When::At(instant(1_000)), (Pending, 1_000)),
            (When::At(instant(1_001)), (Scheduled, 1_001)),
        ] {
            assert_eq!(place(when, false, 1_000), expected, "{when:?}");
            let grouped = if expected.0 == Pending { (Aggregating, 1_000) } else { expected };
            assert_eq!(place(when, true, 1_000), grouped, "{when:?} in a group");
        }
    }
}
