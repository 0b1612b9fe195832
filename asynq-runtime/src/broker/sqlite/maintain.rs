//! Keeps queues healthy, in slices (contract: `broker/maintain.rs`).

use std::{collections::HashSet, sync::Arc, time::Duration};

use rusqlite::params;
use tokio::time::{Instant, timeout_at};

use crate::{
    broker::{BrokerError, Forwarded, Maintain, Recovered, RunKey, Settled, Swept},
    task::{QueueName, TaskId, TaskState},
};

use super::{
    SqliteBroker,
    consume::far,
    job::{Order, Stage},
    liveness::{Grave, Sign},
    presence,
    settle::lost,
    sql,
    tx::{Doomed, Tx, View, day},
};

/// Most tasks that one call touches per queue.
const SLICE: usize = 100;

/// Most tasks deleted by one transaction.
const DELETES: usize = 250;

/// How often a clock that a test turns by hand is looked at; it cannot say that it was turned.
const LOOK_AT_MANUAL_CLOCK: Duration = Duration::from_millis(5);

/// A lease that ends later than this after now was given by a clock that has been set back since.
const BELIEVABLE_LEASE_MS: i64 = 60_000;

/// After this time without a beat, a server that has no lock file counts as dead.
const SILENCE_MS: i64 = 60_000;

/// Days for which counters are kept, as in asynq.
const DAYS_KEPT: i64 = 90;

/// How many tasks at the front of a state a sweep looks at.
const SWEEP: i64 = 1_000;

#[async_trait::async_trait]
impl Maintain for SqliteBroker {
    async fn forward(&self, queues: &[QueueName]) -> Result<Forwarded, BrokerError> {
        let queues: Arc<[QueueName]> = queues.into();
        let look = Arc::clone(&queues);
        let order = Order::new(Stage::Forward, SLICE, move |tx| {
            let mut forwarded = Forwarded::default();
            for queue in queues.iter() {
                let moved = forward(tx, queue)?;
                forwarded.moved += moved.moved;
                forwarded.more |= moved.more;
            }
            Ok(forwarded)
        });
        let order = order.unless(move |view| {
            let next = next_due(view, &look)?;
            Ok(next.is_none_or(|next| next > view.now).then(Forwarded::default))
        });
        self.store.write(order).await
    }

    async fn wait_for_due(&self, queues: &[QueueName], limit: Duration) -> Result<(), BrokerError> {
        let deadline = far(limit);
        let mut news = self.store.common.news.due();
        loop {
            let queues = queues.to_vec();
            let next = self.store.read(move |view| next_due(view, &queues)).await?;
            // The clock may be a test's, so how long to wait follows from it alone.
            loop {
                let left = next.map(|next| next.saturating_sub(self.store.common.now()));
                if left.is_some_and(|left| left <= 0) || Instant::now() >= deadline {
                    return Ok(());
                }
                let mut pause = far(left.map_or(Duration::MAX, |left| Duration::from_millis(left.unsigned_abs())));
                if self.manual_clock && left.is_some() {
                    pause = pause.min(Instant::now() + LOOK_AT_MANUAL_CLOCK);
                }
                if timeout_at(pause.min(deadline), news.heard()).await.is_ok() {
                    break;
                }
            }
        }
    }

    async fn extend(&self, runs: &[RunKey]) -> Result<Vec<Settled>, BrokerError> {
        let mut answers = Vec::with_capacity(runs.len());
        for slice in runs.chunks(SLICE) {
            let slice: Arc<[RunKey]> = slice.into();
            let lease = self.lease_ms();
            let order = Order::new(Stage::Settle, slice.len(), move |tx| {
                let until = tx.view.now.saturating_add(lease);
                slice.iter().map(|run| extend(&tx.view, run, until)).collect::<rusqlite::Result<Vec<_>>>()
            });
            answers.extend(self.store.write(order).await?);
        }
        Ok(answers)
    }

    async fn recover(&self, queues: &[QueueName]) -> Result<Recovered, BrokerError> {
        let queues: Arc<[QueueName]> = queues.into();
        let common = Arc::clone(&self.store.common);
        let look = Arc::clone(&queues);
        // File locks are tried outside of the write transaction, which others wait for.
        let (dead, lapsed) = self
            .store
            .read(move |view| {
                let dead = match &common.liveness {
                    Some(liveness) => find_dead(view, liveness)?,
                    None => Vec::new(),
                };
                Ok((dead, any_lapsed(view, &look)?))
            })
            .await?;
        if dead.is_empty() && !lapsed {
            return Ok(Recovered::default());
        }
        let dead = Arc::new(dead);
        let buried = Arc::clone(&dead);
        let order = Order::new(Stage::Forward, SLICE, move |tx| recover(tx, &queues, &buried));
        let (recovered, emptied) = self.store.write(order).await?;
        close_graves(&dead, &emptied);
        Ok(recovered)
    }

    async fn sweep(&self, queue: &QueueName) -> Result<Swept, BrokerError> {
        let queue = queue.clone();
        let lease = self.lease_ms();
        self.store.write(Order::new(Stage::Forward, SLICE, move |tx| sweep(tx, &queue, lease))).await
    }

    async fn delete_expired(&self, queue: &QueueName, limit: usize) -> Result<usize, BrokerError> {
        let mut deleted = 0;
        while deleted < limit {
            let slice = (limit - deleted).min(DELETES);
            let (queue, look) = (queue.clone(), queue.clone());
            let order = Order::new(Stage::Forward, slice, move |tx| {
                let Some(q) = tx.view.queue(&queue)? else { return Ok(0) };
                let expired = expired(&tx.view, q, slice)?;
                for &seq in &expired {
                    // Its unique lock was freed when it succeeded.
                    tx.delete(&Doomed { seq, q, state: TaskState::Completed, id: "", lock: None })?;
                }
                Ok(expired.len())
            });
            let order = order.unless(move |view| {
                let Some(q) = view.queue(&look)? else { return Ok(Some(0)) };
                Ok(expired(view, q, 1)?.is_empty().then_some(0))
            });
            let now = self.store.write(order).await?;
            deleted += now;
            if now < slice {
                break;
            }
        }
        Ok(deleted)
    }

    async fn trim_archive(
        &self,
        queue: &QueueName,
        max_age: Duration,
        max_size: usize,
        limit: usize,
    ) -> Result<usize, BrokerError> {
        let max_size = i64::try_from(max_size).unwrap_or(i64::MAX);
        let max_age = i64::try_from(max_age.as_millis()).unwrap_or(i64::MAX);
        let mut deleted = 0;
        while deleted < limit {
            let slice = (limit - deleted).min(DELETES);
            let (queue, look) = (queue.clone(), queue.clone());
            let order = Order::new(Stage::Forward, slice, move |tx| {
                let Some(q) = tx.view.queue(&queue)? else { return Ok(0) };
                let old = superfluous(&tx.view, q, max_age, max_size, slice)?;
                for task in &old {
                    tx.delete(&Doomed {
                        seq: task.seq,
                        q,
                        state: TaskState::Archived,
                        id: &task.id,
                        lock: task.lock.as_deref(),
                    })?;
                }
                Ok(old.len())
            });
            let order = order.unless(move |view| {
                let Some(q) = view.queue(&look)? else { return Ok(Some(0)) };
                Ok(superfluous(view, q, max_age, max_size, 1)?.is_empty().then_some(0))
            });
            let now = self.store.write(order).await?;
            deleted += now;
            if now < slice {
                break;
            }
        }
        Ok(deleted)
    }
}

fn limit_of(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn next_due(view: &View<'_>, queues: &[QueueName]) -> rusqlite::Result<Option<i64>> {
    let mut next = None;
    for queue in queues {
        let due = view.find(&sql::MAINTAIN_NEXT_DUE, [queue.as_str()], |row| row.get::<_, Option<i64>>(0))?.flatten();
        next = next.into_iter().chain(due).min();
    }
    Ok(next)
}

fn forward(tx: &mut Tx<'_>, queue: &QueueName) -> rusqlite::Result<Forwarded> {
    let Some(q) = tx.view.queue(queue)? else { return Ok(Forwarded::default()) };
    let mut due: Vec<(i64, i64, TaskState)> = Vec::new();
    for (statement, state) in
        [(&sql::MAINTAIN_DUE_SCHEDULED, TaskState::Scheduled), (&sql::MAINTAIN_DUE_RETRY, TaskState::Retry)]
    {
        due.extend(
            tx.view
                .list(statement, [q, tx.view.now, limit_of(SLICE + 1)], |row| Ok((row.get(0)?, row.get(1)?, state)))?,
        );
    }
    due.sort_unstable();
    let more = due.len() > SLICE;
    due.truncate(SLICE);
    for &(_, seq, state) in &due {
        let place = tx.tail(q, true)?;
        tx.view.execute(&sql::MAINTAIN_FORWARD, [seq, place, tx.view.now])?;
        tx.left(q, state);
        tx.came(q, TaskState::Pending);
    }
    Ok(Forwarded { moved: due.len(), more })
}

fn extend(view: &View<'_>, run: &RunKey, until: i64) -> rusqlite::Result<Settled> {
    let extended =
        view.execute(&sql::MAINTAIN_EXTEND, params![run.row, run.server, run.token.0, run.id.as_str(), until])?;
    if extended == 1 { Ok(Settled::Ok) } else { lost(view, run) }
}

/// A server whose program is dead.
#[derive(Debug)]
struct Dead {
    number: i64,
    file: String,
    /// Held by the first of the servers that share the file.
    grave: Option<Grave>,
}

fn find_dead(view: &View<'_>, liveness: &super::liveness::Liveness) -> rusqlite::Result<Vec<Dead>> {
    let mut dead: Vec<Dead> = Vec::new();
    for server in presence::everyone(view)? {
        if server.file == liveness.name() {
            continue;
        }
        let grave = if dead.iter().any(|known| known.file == server.file) {
            None
        } else {
            match liveness.look(&server.file) {
                Sign::Dead(grave) => Some(grave),
                Sign::Alive => continue,
                // Somebody took its file away. As long as it beats, only the lease decides.
                Sign::Unknown if view.now.saturating_sub(server.beat_at) < SILENCE_MS => continue,
                Sign::Unknown => None,
            }
        };
        dead.push(Dead { number: server.number, file: server.file, grave });
    }
    Ok(dead)
}

fn any_lapsed(view: &View<'_>, queues: &[QueueName]) -> rusqlite::Result<bool> {
    for queue in queues {
        if let Some(q) = view.queue(queue)?
            && !view.list(&sql::MAINTAIN_LAPSED, [q, view.now, 1], |_| Ok(()))?.is_empty()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Puts back what dead servers and lapsed leases left; also says which of the dead hold nothing any more.
fn recover(tx: &mut Tx<'_>, queues: &[QueueName], dead: &[Dead]) -> rusqlite::Result<(Recovered, Vec<i64>)> {
    let mut recovered = Recovered::default();
    for queue in queues {
        let Some(q) = tx.view.queue(queue)? else { continue };
        let mut found: Vec<(i64, String)> = Vec::new();
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        for server in dead {
            let missing = limit_of(SLICE + 1 - found.len());
            found.extend(tx.view.list(&sql::MAINTAIN_LEFT_BY, [q, server.number, missing], row)?);
        }
        let known: HashSet<i64> = found.iter().map(|(seq, _)| *seq).collect();
        if found.len() <= SLICE {
            let lapsed = tx.view.list(&sql::MAINTAIN_LAPSED, [q, tx.view.now, limit_of(SLICE + 1)], row)?;
            found.extend(lapsed.into_iter().filter(|(seq, _): &(i64, String)| !known.contains(seq)));
        }
        recovered.more |= found.len() > SLICE;
        found.truncate(SLICE);
        for (seq, id) in found {
            let place = tx.head(q)?;
            tx.view.execute(&sql::MAINTAIN_PUT_BACK, [seq, place, tx.view.now])?;
            tx.left(q, TaskState::Active);
            tx.came(q, TaskState::Pending);
            recovered.tasks.push((queue.clone(), TaskId::from_wire(&id)));
        }
    }
    let mut emptied = Vec::new();
    for server in dead {
        // Other queues of the dead server are the business of those who serve them.
        if !presence::runs_something(&tx.view, server.number)? {
            tx.view.execute(&sql::PRESENCE_LEAVE, [server.number])?;
            emptied.push(server.number);
        }
    }
    Ok((recovered, emptied))
}

/// Removes the files of dead programs of which no server is on the list any more.
fn close_graves(dead: &[Dead], emptied: &[i64]) {
    let waiting: HashSet<&str> =
        dead.iter().filter(|server| !emptied.contains(&server.number)).map(|server| server.file.as_str()).collect();
    for server in dead {
        if let Some(grave) = &server.grave
            && !waiting.contains(server.file.as_str())
        {
            grave.close();
        }
    }
}

fn sweep(tx: &mut Tx<'_>, queue: &QueueName, lease: i64) -> rusqlite::Result<Swept> {
    let Some(q) = tx.view.queue(queue)? else { return Ok(Swept::default()) };
    let mut swept = Swept::default();
    let believable = tx.view.now.saturating_add(lease).saturating_add(BELIEVABLE_LEASE_MS);
    let endless = tx.view.list(&sql::MAINTAIN_ENDLESS, [q, believable, limit_of(SLICE)], |row| row.get::<_, i64>(0))?;
    for seq in endless {
        tx.view.execute(&sql::MAINTAIN_END_LEASE, [seq, tx.view.now])?;
        swept.leases_restored += 1;
    }
    for state in [TaskState::Active, TaskState::Pending] {
        let ghosts = tx.view.list(&sql::MAINTAIN_GHOSTS, [q, i64::from(state.number()), SWEEP], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, Option<String>>(2)?))
        })?;
        for (seq, id, lock) in ghosts.into_iter().take(SLICE) {
            tx.delete(&Doomed { seq, q, state, id: &id, lock: lock.as_deref() })?;
            swept.ghosts_removed += 1;
        }
    }
    tx.view.execute(&sql::COUNT_FORGET_DAYS, [q, day(tx.view.now) - DAYS_KEPT])?;
    Ok(swept)
}

fn expired(view: &View<'_>, q: i64, limit: usize) -> rusqlite::Result<Vec<i64>> {
    view.list(&sql::MAINTAIN_EXPIRED, [q, view.now, limit_of(limit)], |row| row.get(0))
}

/// An archived task.
#[derive(Debug)]
struct Old {
    seq: i64,
    at: i64,
    id: String,
    lock: Option<String>,
}

/// The oldest archived tasks that are too old or beyond the newest `max_size`.
fn superfluous(view: &View<'_>, q: i64, max_age: i64, max_size: i64, limit: usize) -> rusqlite::Result<Vec<Old>> {
    let archived = i64::from(TaskState::Archived.number());
    let counts = view.list(&sql::INSPECT_COUNTS, [q], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    let size: i64 = counts.into_iter().filter(|(state, _)| *state == archived).map(|(_, n)| n).sum();
    let excess = usize::try_from(size.saturating_sub(max_size)).unwrap_or(0);
    let oldest = view.list(&sql::MAINTAIN_OLDEST_ARCHIVED, [q, limit_of(limit)], |row| {
        Ok(Old { seq: row.get(0)?, at: row.get(1)?, id: row.get(2)?, lock: row.get(3)? })
    })?;
    let too_old = view.now.saturating_sub(max_age);
    Ok(oldest
        .into_iter()
        .enumerate()
        .filter(|(i, task)| *i < excess || task.at < too_old)
        .map(|(_, task)| task)
        .collect())
}
