//! Enqueues inside a transaction of the caller's own connection, so that a row and the task it caused commit together
//! (docs/design/sqlite.md#in-a-programs-own-transaction).

use std::path::Path;

use rusqlite::{Connection, ErrorCode};

use crate::broker::{BrokerError, BrokerErrorKind, JoinShapes, NewShape, NewTask, Placed, Refused, When, due_ms};

use super::{
    SqliteBroker,
    connection::{STATEMENTS, number},
    disk_room::DiskRoom,
    file_status::Identity,
    migrate,
    produce::Item,
    row::after,
    shapes, sql,
    tx::Tx,
};

/// Why a task did not join a transaction. The transaction has nothing of the task and keeps its earlier changes.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// The client's tasks are not in SQLite.
    #[error(
        "a task can join a transaction only in SQLite, and this client works on {location}; use `enqueue` after the commit"
    )]
    NotSqlite {
        /// Where the client's tasks are.
        location: String,
    },
    /// The connection is open on another file than the client.
    #[error(
        "the connection has {found} open and the client {expected}: open both on one file, only then can they commit together"
    )]
    OtherFile {
        /// The connection's file.
        found: String,
        /// The client's file.
        expected: String,
    },
    /// The client's tasks are in memory, as those of a `TestApp` are.
    #[error(
        "the client's tasks are in memory, where no other connection can join them; open the client on a file, in a test on a new one"
    )]
    InMemory,
    /// There is no transaction to join.
    #[error("no transaction is open on this connection; begin one (BEGIN IMMEDIATE), or use `enqueue`")]
    NoTransaction,
    /// The transaction did not begin by writing, and another connection writes or has written since: SQLite lets it write no more,
    /// and does not wait.
    #[error(
        "this transaction did not begin with BEGIN IMMEDIATE, and another connection writes or has written since; roll it back \
         and begin it so"
    )]
    Stale,
    /// SQLite or the broker failed; the text of the error says what to do.
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

debug_as_text!(TransactionError);

/// A task as a row of the view `enqueue`, with the statement that stores it.
#[derive(Debug)]
pub(crate) struct Row {
    /// The task.
    pub(crate) task: NewTask,
    /// When the task is due, in Unix milliseconds, if the caller gave an instant.
    pub(crate) due: Option<i64>,
    /// After how many milliseconds the task is due, if the caller gave a delay.
    pub(crate) delay: Option<i64>,
    /// How many milliseconds the lock of the task lasts at most.
    pub(crate) unique_ms: Option<i64>,
    /// The broker's time, where the broker has another clock than the machine's.
    pub(crate) now: Option<i64>,
    /// The statement that stores the row.
    pub(crate) sql: &'static str,
}

impl SqliteBroker {
    /// Checks whether tasks can be enqueued on `connection`, and prepares it for them.
    ///
    /// # Errors
    ///
    /// The tasks are in memory, `connection` is open on another file, can only read or does not sync at all, or the file cannot be read.
    pub(crate) fn attach(&self, connection: &Connection) -> Result<(), TransactionError> {
        self.check_file(connection)?;
        let common = &self.store.common;
        migrate::check(connection, &common.place)?;
        let synchronous = number(connection, "PRAGMA main.synchronous");
        if synchronous.map_err(|error| common.explain(error))? == 0 {
            // Its checkpoints overwrite pages of the file by those of a log that was never synced, with the commits of all programs.
            let advice = "this connection has PRAGMA synchronous=OFF, with which a power cut may damage the file and take the tasks of \
                          all programs; set NORMAL or FULL";
            return Err(common.error(BrokerErrorKind::Config, advice).into());
        }
        let query_only = number(connection, "PRAGMA query_only");
        let can_only_read = query_only.and_then(|query_only| Ok(query_only != 0 || connection.is_readonly("main")?));
        if can_only_read.map_err(|error| common.explain(error))? {
            let advice = "this connection can only read; attach the one that writes";
            return Err(common.error(BrokerErrorKind::Config, advice).into());
        }
        // rusqlite's 16 are too few for our statements and the program's.
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        Ok(())
    }

    /// Stores `task` in the transaction that is open on `connection`, and keeps the shape of its arguments.
    ///
    /// # Errors
    ///
    /// The connection is not a transaction on our file, or SQLite failed.
    pub(crate) fn enqueue_on(
        &self,
        connection: &Connection,
        task: NewTask,
        new_shapes: &[NewShape],
        join: JoinShapes,
    ) -> Result<Result<Placed, Refused>, TransactionError> {
        self.check_file(connection)?;
        if connection.is_autocommit() {
            return Err(TransactionError::NoTransaction);
        }
        let common = &self.store.common;
        if let Some(file) = &common.file
            && !DiskRoom::of_disk().is_left(file, connection)
        {
            let advice = "the disk is nearly full; nothing was stored, make room";
            return Err(common.error(BrokerErrorKind::Full, advice).into());
        }
        let item = Item::new(task);
        let mut tx = Tx::new(common.view(connection));
        whole(connection, || {
            let placed = item.insert(&mut tx)?;
            tx.write_counts()?;
            shapes::keep(&tx.view, new_shapes, join)?;
            Ok(placed)
        })
        .map_err(|error| match error.sqlite_error_code() {
            // A transaction that writes already has the lock.
            Some(ErrorCode::DatabaseBusy) => TransactionError::Stale,
            _ => common.explain(error).into(),
        })
    }

    /// Returns `task` as a row of the view `enqueue`.
    pub(crate) fn row(&self, task: NewTask) -> Row {
        let (due, delay) = match task.when {
            When::Now => (None, None),
            When::In(delay) => (None, Some(after(0, delay))),
            When::At(at) => (Some(due_ms(at)), None),
        };
        let common = &self.store.common;
        Row {
            due,
            delay,
            unique_ms: task.unique.as_ref().map(|lock| after(0, lock.ttl)),
            now: self.manual_clock.then(|| common.now()),
            sql: sql::in_transaction::ENQUEUE.text(common.names),
            task,
        }
    }

    /// Wakes all waits for tasks, here and in other programs, without waiting for anything.
    pub(crate) fn wake(&self) {
        self.store.wake_all_processes();
    }

    fn check_file(&self, connection: &Connection) -> Result<(), TransactionError> {
        let common = &self.store.common;
        common.check()?;
        let Some(expected) = common.identity else { return Err(TransactionError::InMemory) };
        let found = connection.path();
        if let Some(found) = found
            && Identity::of(Path::new(found)).is_ok_and(|found| found == expected)
        {
            return Ok(());
        }
        let found = match found {
            None => "a file whose path is not UTF-8, by which it cannot be compared,",
            Some("") => "a database in memory",
            Some(path) => path,
        };
        Err(TransactionError::OtherFile { found: found.to_owned(), expected: common.place.clone() })
    }
}

/// Runs `work` so that a failure undoes all of it, and nothing else of the transaction.
fn whole<T>(connection: &Connection, work: impl FnOnce() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    connection.execute_batch("SAVEPOINT asynq_enqueue")?;
    let outcome = work();
    // After some errors, a full disk among them, SQLite has rolled back everything already.
    let end =
        if outcome.is_ok() { "RELEASE asynq_enqueue" } else { "ROLLBACK TO asynq_enqueue; RELEASE asynq_enqueue" };
    match (connection.execute_batch(end), outcome) {
        (Err(error), Ok(_)) => Err(error),
        (_, outcome) => outcome,
    }
}
