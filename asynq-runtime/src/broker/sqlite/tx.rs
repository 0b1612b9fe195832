//! Transactions: a view to read by, and the counters and notifications that a commit carries.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Params, params};

use crate::{
    broker::settle::OLDER_ERROR,
    task::{Extra, QueueName, TaskState, cut},
};

use super::sql::{self, Names, Sql};

/// A connection with the facts that statements need.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    connection: &'a Connection,
    names: Names,
    /// The broker's time, in Unix milliseconds.
    pub(super) now: i64,
}

impl<'a> View<'a> {
    pub(super) fn new(connection: &'a Connection, names: Names, now: i64) -> Self {
        Self { connection, names, now }
    }

    /// Returns a statement, prepared at its first use.
    pub(super) fn statement(&self, sql: &Sql) -> rusqlite::Result<CachedStatement<'a>> {
        self.connection.prepare_cached(sql.text(self.names))
    }

    /// Runs a statement and returns how many rows it changed.
    pub(super) fn execute(&self, sql: &Sql, params: impl Params) -> rusqlite::Result<usize> {
        self.statement(sql)?.execute(params)
    }

    pub(super) fn batch(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.execute_batch(sql)
    }

    /// Returns the first row, if there is one.
    pub(super) fn find<T>(
        &self,
        sql: &Sql,
        params: impl Params,
        read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        self.statement(sql)?.query_row(params, read).optional()
    }

    /// Returns every row.
    pub(super) fn list<T>(
        &self,
        sql: &Sql,
        params: impl Params,
        read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        self.statement(sql)?.query_map(params, read)?.collect()
    }

    /// Has all statements of `read` see the same commits. Outside of a transaction, each statement would see the newest.
    pub(super) fn at_one_moment<T>(&self, read: impl FnOnce(&Self) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        // Dropping the transaction ends it.
        let _transaction = self.connection.unchecked_transaction()?;
        read(self)
    }

    /// Returns the number of a queue, if it is known.
    pub(super) fn queue(&self, name: &QueueName) -> rusqlite::Result<Option<i64>> {
        self.find(&sql::queue::FIND, [name.as_str()], |row| row.get(0))
    }

    /// Returns the number of the row inserted last.
    pub(super) fn last_row(&self) -> i64 {
        self.connection.last_insert_rowid()
    }
}

/// The waits that a commit ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Effects {
    /// A task may be taken that could not be taken before.
    pub(super) work: bool,
    /// A task is due at a time that was not known before.
    pub(super) due: bool,
    /// A cancel request or another control request came.
    pub(super) signal: bool,
    /// A task was completed, archived or deleted.
    pub(super) ended: bool,
}

impl Effects {
    /// Whether servers of other programs have to be notified.
    pub(super) fn any(self) -> bool {
        self.work || self.due || self.signal
    }
}

/// Failures kept per task.
pub(super) const FAILURES: i64 = 10;

/// A write transaction. Counters are kept as one delta per queue and state, written once before the commit.
#[derive(Debug, Clone)]
pub(super) struct Tx<'a> {
    /// The transaction to run statements in.
    pub(super) view: View<'a>,
    /// The waits that the commit ends.
    pub(super) effects: Effects,
    /// The tasks that the transaction archives because they can never run, each with the reason.
    pub(super) set_aside: Vec<(String, &'static str)>,
    tally: BTreeMap<(i64, u8), i64>,
    stat: BTreeMap<i64, (i64, i64)>,
    queues: HashMap<QueueName, i64>,
    heads: HashMap<i64, i64>,
    /// The position of the last pending task of a queue, and whether a task behind it must not share that position.
    tails: HashMap<i64, (i64, bool)>,
}

impl<'a> Tx<'a> {
    pub(super) fn new(view: View<'a>) -> Self {
        Self {
            view,
            effects: Effects::default(),
            set_aside: Vec::new(),
            tally: BTreeMap::new(),
            stat: BTreeMap::new(),
            queues: HashMap::new(),
            heads: HashMap::new(),
            tails: HashMap::new(),
        }
    }

    /// Returns the number of a queue, which becomes known if it was not.
    pub(super) fn queue_or_new(&mut self, name: &QueueName) -> rusqlite::Result<i64> {
        if let Some(q) = self.queue(name)? {
            return Ok(q);
        }
        self.view.execute(&sql::queue::ADD, [name.as_str()])?;
        let q = self.view.last_row();
        self.queues.insert(name.clone(), q);
        Ok(q)
    }

    /// Returns the number of a queue, if it is known.
    pub(super) fn queue(&mut self, name: &QueueName) -> rusqlite::Result<Option<i64>> {
        if let Some(&q) = self.queues.get(name) {
            return Ok(Some(q));
        }
        let found = self.view.queue(name)?;
        if let Some(q) = found {
            self.queues.insert(name.clone(), q);
        }
        Ok(found)
    }

    /// Counts a task that came into `state`.
    pub(super) fn came(&mut self, q: i64, state: TaskState) {
        *self.tally.entry((q, state.number())).or_default() += 1;
        match state {
            TaskState::Pending => self.effects.work = true,
            TaskState::Scheduled | TaskState::Retry => self.effects.due = true,
            TaskState::Completed | TaskState::Archived => self.effects.ended = true,
            TaskState::Active | TaskState::Aggregating => {}
        }
    }

    /// Counts a task that left `state`.
    pub(super) fn left(&mut self, q: i64, state: TaskState) {
        *self.tally.entry((q, state.number())).or_default() -= 1;
    }

    /// Counts a task that went from one state to another.
    pub(super) fn moved(&mut self, q: i64, from: TaskState, to: TaskState) {
        self.left(q, from);
        self.came(q, to);
    }

    /// Names the tasks that were set aside, which no worker tells of, and returns the waits that end; called behind the commit.
    pub(super) fn committed(self) -> Effects {
        for (id, why) in self.set_aside {
            log!(error, %id, "archived: {why}");
        }
        self.effects
    }

    /// Counts a run that ended, and whether it failed.
    pub(super) fn ended(&mut self, q: i64, failed: bool) {
        let (processed, failures) = self.stat.entry(q).or_default();
        *processed += 1;
        *failures += i64::from(failed);
    }

    /// Returns a place before every task that waits in `q`, each time another one.
    pub(super) fn head(&mut self, q: i64) -> rusqlite::Result<i64> {
        let first = match self.heads.get(&q) {
            Some(&head) => Some(head),
            None => self.view.find(&sql::queue_ends::HEAD, [q], |row| row.get(0))?.flatten(),
        };
        let head = first.map_or(self.view.now, |first: i64| first.min(self.view.now)).saturating_sub(1);
        self.heads.insert(q, head);
        Ok(head)
    }

    /// Returns a position behind every waiting task of `q`. With `alone`, no other task shares the position: among equal
    /// positions the lower row comes first, and only new tasks have the highest row of their queue.
    pub(super) fn tail(&mut self, q: i64, alone: bool) -> rusqlite::Result<i64> {
        let last = match self.tails.get(&q) {
            Some(&last) => Some(last),
            None => self.view.find(&sql::queue_ends::TAIL, [q], |row| Ok((row.get(0)?, row.get(1)?)))?,
        };
        let next = last.map(|(last, is_alone)| last.saturating_add(i64::from(alone || is_alone)));
        let place = next.map_or(self.view.now, |next| next.max(self.view.now));
        self.tails.insert(q, (place, alone));
        Ok(place)
    }

    /// Frees the unique lock of a task, if it has one (callers: docs/design/fence.md#unique-locks).
    pub(super) fn free_lock(&self, q: i64, key: Option<&str>, id: &str) -> rusqlite::Result<()> {
        if let Some(key) = key {
            self.view.execute(&sql::lock::RELEASE, params![q, key, id])?;
        }
        Ok(())
    }

    /// Frees the unique lock of a task that is archived now, unless the task keeps its lock until success.
    pub(super) fn free_lock_of_archived(
        &self,
        q: i64,
        key: Option<&str>,
        id: &str,
        extra: &Extra,
    ) -> rusqlite::Result<()> {
        if extra.keeps_lock_when_archived() { Ok(()) } else { self.free_lock(q, key, id) }
    }

    /// Keeps the error of an attempt as the task's last failure, and only the beginning of earlier errors. Must be called
    /// before the attempt is counted in the row, and the caller must set the `failed_at` of the row: without it, a deleted task
    /// would leave its failures behind.
    pub(super) fn note_failure(&self, seq: i64, error: &str) -> rusqlite::Result<()> {
        let last: i64 = self.view.find(&sql::failure::LAST, [seq], |row| row.get(0))?.unwrap_or(0);
        let n = last.saturating_add(1);
        let most = i64::try_from(OLDER_ERROR).unwrap_or(i64::MAX);
        let long = self
            .view
            .list(&sql::failure::LONG, [seq, most], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
        for (older, text) in long {
            self.view.execute(&sql::failure::CUT, params![seq, older, cut(&text, OLDER_ERROR)])?;
        }
        self.view.execute(&sql::failure::ADD, params![seq, n, self.view.now, error])?;
        if n > FAILURES {
            self.view.execute(&sql::failure::FORGET, [seq, FAILURES])?;
        }
        Ok(())
    }

    /// Runs several steps; a refusal undoes all of them, the counters included.
    pub(super) fn whole_or_nothing<T, E>(
        &mut self,
        steps: impl FnOnce(&mut Self) -> rusqlite::Result<Result<T, E>>,
    ) -> rusqlite::Result<Result<T, E>> {
        let before = self.clone();
        self.view.batch("SAVEPOINT steps")?;
        let outcome = steps(self)?;
        if outcome.is_err() {
            self.view.batch("ROLLBACK TO steps")?;
            *self = before;
        }
        self.view.batch("RELEASE steps")?;
        Ok(outcome)
    }

    /// Deletes a task with all that belongs to it; the trigger `task_gone` deletes its failures.
    pub(super) fn delete(&mut self, task: &TaskToDelete<'_>) -> rusqlite::Result<()> {
        self.view.execute(&sql::task::DELETE, [task.seq])?;
        self.view.execute(&sql::body::DELETE, [task.seq])?;
        self.free_lock(task.q, task.lock, task.id)?;
        self.left(task.q, task.state);
        self.effects.ended = true;
        Ok(())
    }

    /// Forgets what this transaction knows of a queue that it has deleted; one of the same name or number may follow.
    pub(super) fn forget_queue(&mut self, q: i64) {
        self.queues.retain(|_, known| *known != q);
        self.tally.retain(|(known, _), _| *known != q);
        self.stat.remove(&q);
        self.heads.remove(&q);
        self.tails.remove(&q);
    }

    /// Writes the counters; the last thing before the commit.
    pub(super) fn write_counts(&mut self) -> rusqlite::Result<()> {
        // A state with a delta of 0 is written as well: it shows that the queue has been used.
        for (&(q, state), &delta) in &self.tally {
            self.view.execute(&sql::count::TALLY, params![q, state, delta])?;
        }
        let today = day(self.view.now);
        for (&q, &(processed, failed)) in &self.stat {
            for day in [today, ALL_TIME] {
                self.view.execute(&sql::count::STAT, params![q, day, processed, failed])?;
            }
        }
        Ok(())
    }
}

/// A task that is to be deleted.
#[derive(Debug)]
pub(super) struct TaskToDelete<'a> {
    pub(super) seq: i64,
    pub(super) q: i64,
    pub(super) state: TaskState,
    pub(super) id: &'a str,
    pub(super) lock: Option<&'a str>,
}

/// Days for which counters are kept, as in asynq.
pub(super) const STATISTICS_DAYS: i64 = 90;

/// The "day" of the counters since the beginning.
pub(super) const ALL_TIME: i64 = -1;

/// Returns the UTC day of an instant, counted from 1970.
pub(super) fn day(ms: i64) -> i64 {
    ms.div_euclid(86_400_000).max(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl View<'_> {
        /// Returns the number that a statement finds.
        pub(in super::super) fn count(&self, sql: &str) -> rusqlite::Result<i64> {
            self.connection.query_row(sql, [], |row| row.get(0))
        }
    }
}
