//! The throwaway program on a SQLite file: asynq's work on its own tables, one connection, statements kept prepared, every
//! commit on disk.

use std::time::{SystemTime, UNIX_EPOCH};

use asynq_runtime::prelude::BoxError;
use rusqlite::{Connection, params};

use super::scripts::Task;
use crate::queue::QUEUE;

const INSERT: &str = "INSERT INTO task(q, state, at, since, id, type) VALUES (?1, 2, ?2, ?2, ?3, 'note')";
const INSERT_BODY: &str = "INSERT INTO body(seq, msg) VALUES (?1, ?2)";
const NEXT: &str = "SELECT t.seq, t.id, b.msg FROM task AS t JOIN body AS b ON b.seq = t.seq \
                    WHERE t.q = ?1 AND t.state = 2 ORDER BY t.at, t.seq LIMIT ?2";
const TAKE: &str = "UPDATE task SET state = 1, at = ?2, server = 1, run = ?3 WHERE seq = ?1";
const DONE: &str = "DELETE FROM task WHERE seq = ?1 AND state = 1 AND server = 1 AND run = ?2";
const DONE_BODY: &str = "DELETE FROM body WHERE seq = ?1";
const TALLY: &str = "INSERT INTO tally(q, state, n) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET n = n + excluded.n";
const STAT: &str = "INSERT INTO stat(q, day, processed, failed) VALUES (?1, ?2, ?3, 0) \
                    ON CONFLICT DO UPDATE SET processed = processed + excluded.processed";
/// States, and the "day" of all time, as asynq numbers them.
const ACTIVE: i64 = 1;
const PENDING: i64 = 2;
const ALL_TIME: i64 = -1;
const DAY_MS: i64 = 86_400_000;
const LEASE_MS: i64 = 10_000;

/// The file, and the tasks that were taken from it and not settled.
#[derive(Debug)]
pub(super) struct File {
    connection: Connection,
    q: i64,
    run: i64,
    taken: Vec<i64>,
}

impl File {
    /// Opens a file that has asynq's tables.
    pub(super) fn open(url: &str) -> Result<Self, BoxError> {
        let connection = Connection::open(url.strip_prefix("sqlite://").unwrap_or(url))?;
        connection.set_prepared_statement_cache_capacity(128);
        connection.busy_timeout(std::time::Duration::from_secs(10))?;
        connection.execute_batch("PRAGMA synchronous=FULL; PRAGMA foreign_keys=OFF")?;
        connection.execute("INSERT OR IGNORE INTO queue(name) VALUES (?1)", [QUEUE])?;
        let q = connection.query_row("SELECT q FROM queue WHERE name = ?1", [QUEUE], |row| row.get(0))?;
        Ok(Self { connection, q, run: 0, taken: Vec::new() })
    }

    /// Stores one group.
    pub(super) fn enqueue(&mut self, group: &[Task]) -> Result<(), BoxError> {
        let now = now();
        self.commit(|file| {
            for (id, message) in group {
                file.execute(INSERT, params![file.q, now, id])?;
                file.execute(INSERT_BODY, params![file.connection.last_insert_rowid(), message])?;
            }
            file.count(PENDING, group.len() as i64)
        })
    }

    /// Takes up to `n` tasks; says how many.
    pub(super) fn fetch(&mut self, n: usize) -> Result<usize, BoxError> {
        self.run += 1;
        let taken = self.commit(|file| file.take(n))?;
        self.taken = taken;
        Ok(self.taken.len())
    }

    /// Settles what was taken.
    pub(super) fn settle(&mut self) -> Result<(), BoxError> {
        self.commit(Self::end)?;
        self.taken.clear();
        Ok(())
    }

    /// Settles what was taken and takes up to `n` more, in one commit; says how many.
    pub(super) fn settle_and_fetch(&mut self, n: usize) -> Result<usize, BoxError> {
        let taken = self.commit(|file| {
            file.end()?;
            file.run += 1;
            file.take(n)
        })?;
        self.taken = taken;
        Ok(self.taken.len())
    }

    fn take(&mut self, n: usize) -> Result<Vec<i64>, BoxError> {
        let mut found = Vec::with_capacity(n);
        let mut next = self.connection.prepare_cached(NEXT)?;
        let mut rows = next.query([self.q, n as i64])?;
        while let Some(row) = rows.next()? {
            // Read as a worker would.
            let (_id, _message): (String, Vec<u8>) = (row.get(1)?, row.get(2)?);
            found.push(row.get(0)?);
        }
        let until = now() + LEASE_MS;
        for seq in &found {
            self.execute(TAKE, params![seq, until, self.run])?;
        }
        let n = found.len() as i64;
        self.count(PENDING, -n)?;
        self.count(ACTIVE, n)?;
        Ok(found)
    }

    fn end(&mut self) -> Result<(), BoxError> {
        for seq in &self.taken {
            self.execute(DONE, params![seq, self.run])?;
            self.execute(DONE_BODY, [seq])?;
        }
        let n = self.taken.len() as i64;
        self.count(ACTIVE, -n)?;
        for day in [now() / DAY_MS, ALL_TIME] {
            self.execute(STAT, [self.q, day, n])?;
        }
        Ok(())
    }

    fn count(&self, state: i64, n: i64) -> Result<(), BoxError> {
        self.execute(TALLY, [self.q, state, n])
    }

    fn commit<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, BoxError>) -> Result<T, BoxError> {
        self.execute("BEGIN IMMEDIATE", [])?;
        let done = work(self)?;
        self.execute("COMMIT", [])?;
        Ok(done)
    }

    fn execute(&self, sql: &str, params: impl rusqlite::Params) -> Result<(), BoxError> {
        self.connection.prepare_cached(sql)?.execute(params)?;
        Ok(())
    }
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64
}
