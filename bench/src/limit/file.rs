//! The throwaway program on a SQLite file: the least that a queue has to do there, with the same promise. One table with a
//! unique id, one connection, statements kept prepared and for whole groups where SQL can, and a thread that brings a
//! commit to the disk while the next one is made, where its caller does not await each commit.

use std::{
    fs,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use asynq_runtime::prelude::BoxError;
use rusqlite::{Connection, params};

use super::scripts::Task;

const TABLES: &str = "CREATE TABLE IF NOT EXISTS task(seq INTEGER PRIMARY KEY, state INTEGER NOT NULL, id TEXT NOT NULL UNIQUE, msg BLOB NOT NULL);
                      CREATE TABLE IF NOT EXISTS settled(one INTEGER PRIMARY KEY, n INTEGER NOT NULL);
                      INSERT OR IGNORE INTO settled(one, n) VALUES (1, 0)";
const INSERT: &str = "INSERT INTO task(state, id, msg) VALUES (2, ?1, ?2)";
/// Waiting tasks are behind those that were taken, so that the next tasks need no index.
const NEXT: &str = "SELECT seq, id, msg FROM task WHERE seq > ?1 LIMIT ?2";
const TAKE: &str = "UPDATE task SET state = 1 WHERE seq BETWEEN ?1 AND ?2";
const DONE: &str = "DELETE FROM task WHERE seq BETWEEN ?1 AND ?2 AND state = 1";
const SETTLED: &str = "UPDATE settled SET n = n + ?1 WHERE one = 1";
/// Commits that may be on their way to the disk while the next one is made.
const AHEAD: usize = 1;

/// The file, and the tasks that were taken from it and not settled.
#[derive(Debug)]
pub(super) struct File {
    connection: Connection,
    disk: Disk,
    /// First and last number of the tasks that were taken, and how many.
    taken: Option<(i64, i64, usize)>,
    /// The last number that was taken, where its row may still be there.
    last: i64,
}

/// The thread that brings commits to the disk, one after the other.
#[derive(Debug)]
struct Disk {
    log: fs::File,
    commits: SyncSender<()>,
    synced: Receiver<Result<(), std::io::Error>>,
    /// Commits that may not be on the disk yet.
    open: usize,
}

impl File {
    /// Opens the file beside that of asynq.
    pub(super) fn open(url: &str) -> Result<Self, BoxError> {
        let path = path(url);
        let connection = Connection::open(&path)?;
        connection.set_prepared_statement_cache_capacity(128);
        // As in asynq, the log is synced here, and not inside of COMMIT.
        connection
            .execute_batch("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=1000")?;
        connection.execute_batch(TABLES)?;
        Ok(Self { connection, disk: Disk::start(&format!("{path}-wal"))?, taken: None, last: 0 })
    }

    /// Returns how many tasks there are and how many were settled, of a file that is not needed any more.
    pub(super) fn end(url: &str) -> Result<(i64, i64), BoxError> {
        let path = path(url);
        let counts = {
            let connection = Connection::open(&path)?;
            let counts = "SELECT (SELECT count(*) FROM task), (SELECT n FROM settled)";
            connection.query_row(counts, [], |row| Ok((row.get(0)?, row.get(1)?)))?
        };
        fs::remove_file(&path)?;
        Ok(counts)
    }

    /// Stores one group.
    pub(super) fn enqueue(&mut self, group: &[Task]) -> Result<(), BoxError> {
        self.commit(|file| file.insert(group))
    }

    /// Stores one group and brings it to the disk in this thread: a caller that awaits each commit would only lose the time of two
    /// wake-ups to another one.
    pub(super) fn enqueue_to_disk(&mut self, group: &[Task]) -> Result<(), BoxError> {
        self.transaction(|file| file.insert(group))?;
        Ok(self.disk.log.sync_data()?)
    }

    /// Takes up to `n` tasks; returns how many.
    pub(super) fn fetch(&mut self, n: usize) -> Result<usize, BoxError> {
        // A fetch promises nothing, so it does not wait for the disk.
        self.transaction(|file| file.take(n))
    }

    /// Settles the tasks that were taken.
    pub(super) fn settle(&mut self) -> Result<(), BoxError> {
        self.commit(Self::settle_taken)
    }

    /// Settles the tasks that were taken and takes up to `n` more, in one commit; returns how many.
    pub(super) fn settle_and_fetch(&mut self, n: usize) -> Result<usize, BoxError> {
        self.commit(|file| {
            file.settle_taken()?;
            file.take(n)
        })
    }

    /// Waits until every commit is on the disk.
    pub(super) fn sync(&mut self) -> Result<(), BoxError> {
        self.disk.wait_for_all_but(0)
    }

    fn insert(&self, group: &[Task]) -> Result<(), BoxError> {
        let mut insert = self.connection.prepare_cached(INSERT)?;
        for task in group {
            insert.execute(params![task.0, task.1])?;
        }
        Ok(())
    }

    fn take(&mut self, n: usize) -> Result<usize, BoxError> {
        let (mut first, mut found) = (None, 0);
        {
            let mut next = self.connection.prepare_cached(NEXT)?;
            let mut rows = next.query([self.last, n as i64])?;
            while let Some(row) = rows.next()? {
                // The columns are read as a worker would.
                let (_id, _message): (String, Vec<u8>) = (row.get(1)?, row.get(2)?);
                self.last = row.get(0)?;
                first = first.or(Some(self.last));
                found += 1;
            }
        }
        self.taken = first.map(|first| (first, self.last, found));
        if let Some((first, last, _)) = self.taken {
            self.execute(TAKE, [first, last])?;
        }
        Ok(found)
    }

    fn settle_taken(&mut self) -> Result<(), BoxError> {
        if let Some((first, last, n)) = self.taken.take() {
            self.execute(DONE, [first, last])?;
            self.execute(SETTLED, [n as i64])?;
            // SQLite begins again at 1 where no row is left.
            self.last = 0;
        }
        Ok(())
    }

    /// Runs a transaction that promises something: its commit goes to the disk.
    fn commit<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, BoxError>) -> Result<T, BoxError> {
        let done = self.transaction(work)?;
        self.disk.commits.send(())?;
        self.disk.open += 1;
        self.disk.wait_for_all_but(AHEAD)?;
        Ok(done)
    }

    fn transaction<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, BoxError>) -> Result<T, BoxError> {
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

impl Disk {
    fn start(log: &str) -> Result<Self, BoxError> {
        let log = fs::File::open(log)?;
        let synced_log = log.try_clone()?;
        let (commits, inbox) = sync_channel(AHEAD + 1);
        let (outbox, synced) = sync_channel(AHEAD + 1);
        thread::spawn(move || while inbox.recv().is_ok() && outbox.send(synced_log.sync_data()).is_ok() {});
        Ok(Self { log, commits, synced, open: 0 })
    }

    fn wait_for_all_but(&mut self, open: usize) -> Result<(), BoxError> {
        while self.open > open {
            self.synced.recv()??;
            self.open -= 1;
        }
        Ok(())
    }
}

/// Returns the path of the file, which lies beside that of asynq.
fn path(url: &str) -> String {
    format!("{}-limit", url.strip_prefix("sqlite://").unwrap_or(url))
}
