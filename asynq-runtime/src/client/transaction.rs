//! Enqueues as part of the caller's own SQLite transaction.

use rusqlite::Connection;

use crate::{
    broker::sqlite::{SqliteBroker, TransactionError},
    job::{EnqueueError, IntoTask, PreparedTask, due_in_transaction},
    task::{TaskId, TaskInfo, TaskState},
};

use super::Client;

/// Enqueues in the caller's own SQLite transaction (feature `sqlite`): see the repository's `docs/transactions.md`.
impl Client {
    /// Checks that tasks can be enqueued in transactions of `connection`. Call it once when the program starts:
    /// [`enqueue_in_tx`](Self::enqueue_in_tx) checks again only that the connection has the client's own file open. It sets the
    /// connection's cache to 128 prepared statements; a program that wants more sets its number afterwards.
    ///
    /// # Errors
    ///
    /// The connection has another file open, can only read or has `PRAGMA synchronous=OFF`, or the client's tasks are not in a SQLite file.
    pub fn attach(&self, connection: &Connection) -> Result<(), TransactionError> {
        self.sqlite()?.attach(connection)
    }

    /// Enqueues one task in the transaction that is open on `connection`: the task exists once the transaction commits, and never
    /// existed if it rolls back. Takes the same tasks as [`enqueue`](Self::enqueue). Call [`wake`](Self::wake) after the commit.
    ///
    /// The transaction should begin with `BEGIN IMMEDIATE` and be short: it holds the one write lock of the file. The
    /// `synchronous` setting of the connection decides how safe its commit is against a power cut; with OFF the file itself may be
    /// damaged, with the tasks of all programs, and only [`attach`](Self::attach) refuses that.
    ///
    /// # Errors
    ///
    /// The task was refused, the client has [layers](Self::layer) ([`EnqueueError::LayersInTransaction`]), the
    /// transaction cannot take the task ([`EnqueueError::Transaction`]), or SQLite or the broker failed
    /// ([`EnqueueError::Broker`]). Nothing of it is stored, and
    /// the transaction can go on, unless SQLite has rolled it back (a full disk, an input/output error).
    pub fn enqueue_in_tx(&self, connection: &Connection, task: impl IntoTask) -> Result<TaskInfo, EnqueueError> {
        self.add(connection, task.into_task()).inspect_err(crate::metrics::not_enqueued)
    }

    fn add(&self, connection: &Connection, task: PreparedTask) -> Result<TaskInfo, EnqueueError> {
        let broker = self.sqlite_without_layers()?;
        let shape = task.shape();
        let task = task.bind(self.broker.now(), self.payload_limit)?;
        let mut info = TaskInfo::from_message(&task.message, TaskState::Pending);
        info.expires = task.extra.expires();
        let (new_shape, join) = due_in_transaction(&*self.broker, shape);
        match broker.enqueue_on(connection, task, new_shape.as_slice(), join)? {
            Ok(placed) => {
                super::note_placed(&mut info, placed);
                Ok(info)
            }
            Err(refused) => Err(EnqueueError::refused(refused, info.queue, info.id)),
        }
    }

    /// Notifies waiting workers, of this program and of others, to look for tasks at once; while this program commits, tidies the
    /// file or waits for the write lock, workers of others find them within a second, mostly within 100 ms. Call it after the commit
    /// of a transaction that enqueued; otherwise it is as late for every worker. Where the tasks are not in SQLite it does nothing.
    pub fn wake(&self) {
        if let Some(broker) = self.broker.as_sqlite() {
            broker.wake();
        }
    }

    /// Returns one task as a row, for connections of other libraries than rusqlite: they execute its statement with its three
    /// values. If the id or the unique lock of the task is taken, only that statement fails, with a UNIQUE error that names
    /// `task.id` or `ulock.key`. The shape of the task's arguments is not kept with it: a program that enqueues nothing but rows, and
    /// of which a worker has another version, should enqueue one task of each job otherwise.
    ///
    /// # Errors
    ///
    /// The task cannot be enqueued at all, it [replaces](crate::JobBuilder::or_replace) an equal one, the client has
    /// [layers](Self::layer) ([`EnqueueError::LayersInTransaction`]), or its tasks are not in SQLite. A client in memory makes rows that no
    /// other connection can execute.
    pub fn row(&self, task: impl IntoTask) -> Result<EnqueueRow, EnqueueError> {
        self.to_row(task.into_task()).inspect_err(crate::metrics::not_enqueued)
    }

    fn to_row(&self, task: PreparedTask) -> Result<EnqueueRow, EnqueueError> {
        let broker = self.sqlite_without_layers()?;
        let task = task.bind(self.broker.now(), self.payload_limit)?;
        if task.replaces.is_some() {
            let reason =
                "a row cannot replace a task that is there; use `enqueue_in_tx`, or `enqueue` after the commit";
            return Err(EnqueueError::Option { option: "or_replace", reason: reason.to_owned() });
        }
        let row = broker.row(task);
        let task = &row.task;
        let facts = serde_json::json!({
            "queue": task.queue.as_str(),
            "id": task.id.as_str(),
            "type": task.message.r#type,
            "due": row.due,
            "delay": row.delay,
            "unique_key": task.unique.as_ref().map(|lock| &lock.key),
            "unique_ms": row.unique_ms,
            "group": task.group.as_ref().map(crate::task::GroupName::as_str),
            "retried": task.message.retried,
            "max_retry": task.message.retry,
            "timeout": task.message.timeout,
            "deadline": task.message.deadline,
            "retention": task.message.retention,
            "now": row.now,
        });
        Ok(EnqueueRow {
            sql: row.sql,
            facts: facts.to_string(),
            message: task.message.encode(),
            extra: task.extra.to_bytes(),
            id: row.task.id,
        })
    }

    /// Returns the broker, for a task that no layer will see.
    fn sqlite_without_layers(&self) -> Result<&SqliteBroker, EnqueueError> {
        let broker = self.sqlite()?;
        if self.layered.is_some() {
            return Err(EnqueueError::LayersInTransaction);
        }
        Ok(broker)
    }

    fn sqlite(&self) -> Result<&SqliteBroker, TransactionError> {
        self.broker.as_sqlite().ok_or_else(|| TransactionError::NotSqlite { location: self.broker.location() })
    }
}

impl From<TransactionError> for EnqueueError {
    fn from(error: TransactionError) -> Self {
        match error {
            // The transaction has nothing of the task.
            TransactionError::Broker(error) => Self::Broker(error.without_effect()),
            error => Self::Transaction(error),
        }
    }
}

/// A task as a row, to be inserted by any SQLite library: [`Client::row`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnqueueRow {
    /// The statement, the same for every task; its parameters `?1`, `?2`, `?3` are the three fields below.
    pub sql: &'static str,
    /// `?1`, text: queue, id, type, times, lock and options, as JSON.
    pub facts: String,
    /// `?2`, blob: the encoded message.
    pub message: Vec<u8>,
    /// `?3`, blob or null: facts that the message cannot carry.
    pub extra: Option<Vec<u8>>,
    /// The task's id.
    pub id: TaskId,
}
