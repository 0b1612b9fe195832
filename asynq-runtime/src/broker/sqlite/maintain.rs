//! Keeps queues healthy, in slices (contract: `broker/maintain.rs`).

mod lapses;
mod ready_queues;
mod recover;
mod trim;

use std::{sync::Arc, time::Duration};

use rusqlite::params;

use crate::{
    broker::{
        ArchivePolicy, BrokerError, Forwarded, HeldLock, Maintain, Recovered, RetryOrder, RunKey, Settled, Swept,
        TaskSet, maintain::LOCK_LEASES,
    },
    task::{QueueName, TaskState},
};

pub(super) use self::lapses::Lapses;
use super::{
    SqliteBroker,
    command::{Priority, Ready, WriteCommand},
    presence,
    row::{after, limit_of, text, text_or_null},
    schedule,
    settle::lost,
    sql,
    store::far,
    tx::{STATISTICS_DAYS, TaskToDelete, Tx, View, day},
};

/// Most tasks that one call touches per queue.
const SLICE: usize = 100;

/// A lease that ends this much later than a new lease was given by a clock that has been set back since.
const BELIEVABLE_LEASE: Duration = Duration::from_secs(60);

/// How many tasks at the front of a state a sweep looks at.
const SWEEP: i64 = 1_000;

/// Most queues of which the writer itself looks for the next due time, after each write.
const MOST_PARKED: usize = 100;

#[async_trait::async_trait]
impl Maintain for SqliteBroker {
    async fn forward(&self, queues: &[QueueName], retries: RetryOrder) -> Result<Forwarded, BrokerError> {
        let (look, command) = forward_all(queues, retries);
        let command = command.unless(move |view| {
            let next = next_due(view, &look)?;
            Ok(next.is_none_or(|next| next > view.now).then(Forwarded::default))
        });
        self.store.write(command).await
    }

    async fn wait_for_due(&self, queues: &[QueueName], limit: Duration) -> Result<Vec<QueueName>, BrokerError> {
        let deadline = far(limit);
        let mut notifier = self.store.common.notifier.due.subscribe();
        loop {
            let look = queues.to_vec();
            let dues = self.store.read(move |view| ready_queues::dues(view, &look)).await?;
            let next = dues.iter().map(|(_, due)| *due).min();
            if !self.notified_before(&mut notifier, next, deadline).await {
                let now = self.store.common.now();
                return Ok(dues.into_iter().filter(|(_, due)| *due <= now).map(|(queue, _)| queue).collect());
            }
        }
    }

    async fn wait_and_forward(
        &self,
        queues: &[QueueName],
        retries: RetryOrder,
        limit: Duration,
    ) -> Result<Forwarded, BrokerError> {
        // The writer sleeps by the real clock; and all other commands would wait while it looks through many queues.
        if self.manual_clock || queues.len() > MOST_PARKED {
            let due = self.wait_for_due(queues, limit).await?;
            return if due.is_empty() { Ok(Forwarded::default()) } else { self.forward(&due, retries).await };
        }
        let (look, command) = forward_all(queues, retries);
        let command = command.once(move |view| {
            Ok(match next_due(view, &look)? {
                Some(due) if due <= view.now => Ready::Now,
                Some(due) => Ready::At(due),
                None => Ready::AfterNotification,
            })
        });
        let forwarded = self.store.write_once(command, Arc::default(), limit, std::future::pending()).await?;
        Ok(forwarded.unwrap_or_default())
    }

    async fn extend(&self, runs: &[RunKey]) -> Vec<Result<Settled, BrokerError>> {
        let mut answers = Vec::with_capacity(runs.len());
        for slice in runs.chunks(SLICE) {
            let (size, slice): (usize, Arc<[RunKey]>) = (slice.len(), slice.into());
            let lease = self.lease;
            let command = WriteCommand::new(Priority::Lease, size, move |tx| {
                let until = after(tx.view.now, lease);
                slice.iter().map(|run| extend(&tx.view, run, until)).collect::<rusqlite::Result<Vec<_>>>()
            });
            match self.store.write(command.may_be_lost()).await {
                Ok(extended) => answers.extend(extended.into_iter().map(Ok)),
                Err(error) => answers.extend(std::iter::repeat_n(Err(error), size)),
            }
        }
        answers
    }

    async fn extend_locks(&self, locks: &[HeldLock]) -> Result<(), BrokerError> {
        for slice in locks.chunks(SLICE) {
            let slice: Arc<[HeldLock]> = slice.into();
            let lasts = self.lease.saturating_mul(LOCK_LEASES);
            let command = WriteCommand::new(Priority::Lease, slice.len(), move |tx| {
                let (now, until) = (tx.view.now, after(tx.view.now, lasts));
                for HeldLock { run, key } in &*slice {
                    tx.view.execute(
                        &sql::lock::EXTEND,
                        params![run.row, run.server, run.token.0, run.id.as_str(), key, until, now],
                    )?;
                }
                Ok(())
            });
            self.store.write(command).await?;
        }
        Ok(())
    }

    async fn recover(&self, queues: &[QueueName]) -> Result<Recovered, BrokerError> {
        // A test's clock steps only when the test says so: all that it ends counts at once.
        let [lease, silence] = if self.manual_clock { [Duration::ZERO; 2] } else { [self.lease, recover::SILENCE] };
        let confirmation = recover::LapseConfirmation { lapses: Arc::clone(&self.lapses), lease, silence };
        recover::recover(&self.store, queues, confirmation).await
    }

    async fn until_lapse(&self, queues: &[QueueName]) -> Result<Duration, BrokerError> {
        recover::until_lapse(&self.store, queues).await
    }

    async fn sweep(&self, queue: &QueueName) -> Result<Swept, BrokerError> {
        let (queue, lease) = (queue.clone(), self.lease);
        // A sweep that a power cut takes back is made again.
        let command = WriteCommand::new(Priority::Forward, SLICE, move |tx| sweep(tx, &queue, lease)).may_be_lost();
        self.store.write(command).await
    }

    async fn worth_cleaning(&self, policies: &[ArchivePolicy]) -> Result<Vec<QueueName>, BrokerError> {
        let policies = policies.to_vec();
        self.store.read(move |view| ready_queues::cleaning(view, &policies)).await
    }

    async fn worth_sweeping(&self, queues: &[QueueName]) -> Result<Vec<QueueName>, BrokerError> {
        let queues = queues.to_vec();
        self.store.read(move |view| ready_queues::sweeping(view, &queues)).await
    }

    async fn delete_expired(&self, queue: &QueueName, limit: usize) -> Result<usize, BrokerError> {
        trim::delete_expired(&self.store, queue, limit).await
    }

    async fn trim_archive(
        &self,
        queue: &QueueName,
        max_age: Duration,
        max_size: usize,
        limit: usize,
    ) -> Result<usize, BrokerError> {
        trim::trim_archive(&self.store, queue, max_age, max_size, limit).await
    }
}

/// Returns the first day whose counters are kept.
fn first_day(now: i64) -> i64 {
    day(now) - STATISTICS_DAYS
}

fn next_due(view: &View<'_>, queues: &[QueueName]) -> rusqlite::Result<Option<i64>> {
    Ok(ready_queues::dues(view, queues)?.into_iter().map(|(_, due)| due).min())
}

/// Returns the command that forwards due tasks, and the queues for a look before.
fn forward_all(queues: &[QueueName], retries: RetryOrder) -> (Arc<[QueueName]>, WriteCommand<Forwarded>) {
    let queues: Arc<[QueueName]> = queues.into();
    let look = Arc::clone(&queues);
    let command = WriteCommand::new(Priority::Forward, SLICE, move |tx| {
        let mut forwarded = Forwarded::default();
        for queue in queues.iter() {
            let moved = forward(tx, queue, retries)?;
            forwarded.moved += moved.moved;
            forwarded.more |= moved.more;
        }
        Ok(forwarded)
    });
    (look, command.may_be_lost())
}

fn forward(tx: &mut Tx<'_>, queue: &QueueName, retries: RetryOrder) -> rusqlite::Result<Forwarded> {
    let Some(q) = tx.view.queue(queue)? else { return Ok(Forwarded::default()) };
    let mut due: Vec<(i64, i64, TaskState, bool)> = Vec::new();
    for state in [TaskState::Scheduled, TaskState::Retry] {
        let params = params![q, state.number(), tx.view.now, limit_of(SLICE + 1)];
        due.extend(
            tx.view.list(&sql::maintain::DUE, params, |row| Ok((row.get(0)?, row.get(1)?, state, row.get(2)?)))?,
        );
    }
    due.sort_unstable();
    let more = due.len() > SLICE;
    due.truncate(SLICE);
    let moved = due.len();
    let (first, rest): (Vec<_>, Vec<_>) = due
        .into_iter()
        .partition(|&(_, _, state, grouped)| retries == RetryOrder::First && state == TaskState::Retry && !grouped);
    for (_, seq, state, grouped) in rest {
        if grouped {
            tx.view.execute(&sql::maintain::JOIN_GROUP, [seq, tx.view.now])?;
            tx.moved(q, state, TaskState::Aggregating);
        } else {
            let place = tx.tail(q, true)?;
            tx.view.execute(&sql::maintain::FORWARD, [seq, place, tx.view.now])?;
            tx.moved(q, state, TaskState::Pending);
        }
    }
    // Each retry comes before those that were moved before it.
    for (_, seq, state, _) in first.into_iter().rev() {
        let place = tx.head(q)?;
        tx.view.execute(&sql::maintain::FORWARD, [seq, place, tx.view.now])?;
        tx.moved(q, state, TaskState::Pending);
    }
    Ok(Forwarded { moved, more })
}

fn extend(view: &View<'_>, run: &RunKey, until: i64) -> rusqlite::Result<Settled> {
    let extended =
        view.execute(&sql::maintain::EXTEND, params![run.row, run.server, run.token.0, run.id.as_str(), until])?;
    if extended == 1 { Ok(Settled::Ok) } else { lost(view, run) }
}

fn sweep(tx: &mut Tx<'_>, queue: &QueueName, lease: Duration) -> rusqlite::Result<Swept> {
    schedule::sweep(&tx.view)?;
    presence::forget_signals(&tx.view)?;
    tx.view.execute(&sql::semaphore::SWEEP, [tx.view.now, limit_of(SLICE)])?;
    let Some(q) = tx.view.queue(queue)? else { return Ok(Swept::default()) };
    let believable = after(tx.view.now, lease.saturating_add(BELIEVABLE_LEASE));
    let endless =
        tx.view.list(&sql::maintain::ENDLESS, [q, believable, limit_of(SLICE)], |row| row.get::<_, i64>(0))?;
    for seq in &endless {
        tx.view.execute(&sql::maintain::END_LEASE, [*seq, tx.view.now])?;
    }
    let mut swept = Swept { leases_restored: endless.len(), ghosts_removed: 0 };
    // No other call notices that a set is held for longer than any is.
    tx.view.execute(&sql::groups::SHORTEN, [q, after(tx.view.now, TaskSet::DEADLINE)])?;
    for state in [TaskState::Active, TaskState::Pending] {
        let ghosts = tx.view.list(&sql::maintain::GHOSTS, [q, i64::from(state.number()), SWEEP], |row| {
            Ok((row.get::<_, i64>(0)?, text(row, 1)?, text_or_null(row, 2)?))
        })?;
        for (seq, id, lock) in ghosts.into_iter().take(SLICE) {
            tx.delete(&TaskToDelete { seq, q, state, id: &id, lock: lock.as_deref() })?;
            swept.ghosts_removed += 1;
        }
    }
    tx.view.execute(&sql::count::FORGET_DAYS, [q, first_day(tx.view.now)])?;
    Ok(swept)
}
