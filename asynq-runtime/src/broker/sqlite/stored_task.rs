//! A task as its row has it, for calls that change it or decide by it.

use rusqlite::params;

use super::{
    row::{extra, text, text_or_null},
    sql,
    tx::{TaskToDelete, View},
};
use crate::task::{Extra, QueueName, TaskState};

/// A row of [`sql::task::FIND`].
#[derive(Debug)]
pub(super) struct StoredTask {
    pub(super) seq: i64,
    pub(super) q: i64,
    pub(super) id: String,
    pub(super) state: TaskState,
    pub(super) at: i64,
    pub(super) lock: Option<String>,
    pub(super) extra: Extra,
    /// Whether the task is part of a set, which only the call that makes a task of the set may take apart.
    pub(super) staged: bool,
    pub(super) retried: i64,
    /// Seconds.
    pub(super) retention: i64,
    pub(super) server: i64,
    pub(super) grouped: bool,
}

impl StoredTask {
    pub(super) fn find(view: &View<'_>, queue: &QueueName, id: &str) -> rusqlite::Result<Option<Self>> {
        let Some(q) = view.queue(queue)? else { return Ok(None) };
        view.find(&sql::task::FIND, params![q, id], |row| Self::read(q, row))
    }

    pub(super) fn read(q: i64, row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let number = row.get(2)?;
        Ok(Self {
            seq: row.get(0)?,
            q,
            id: text(row, 1)?,
            state: TaskState::from_number(number).ok_or(rusqlite::Error::IntegralValueOutOfRange(2, number))?,
            at: row.get(3)?,
            lock: text_or_null(row, 4)?,
            extra: extra(row, 5)?,
            staged: row.get(6)?,
            retried: row.get(7)?,
            retention: row.get(8)?,
            server: row.get(9)?,
            grouped: row.get(10)?,
        })
    }

    pub(super) fn to_delete(&self) -> TaskToDelete<'_> {
        let Self { seq, q, ref id, state, .. } = *self;
        TaskToDelete { seq, q, state, id, lock: self.lock.as_deref() }
    }

    /// Marks this running task, so that it is deleted where it would be run again with its older arguments.
    pub(super) fn mark_replaced(&self, view: &View<'_>) -> rusqlite::Result<()> {
        let extra = Extra { replaced: true, ..self.extra.clone() };
        view.execute(&sql::task::SET_EXTRA, params![self.seq, extra.to_bytes()])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl StoredTask {
        /// Returns a task in this state, without a row.
        pub(in super::super) fn in_state(state: TaskState) -> Self {
            Self {
                seq: 1,
                q: 1,
                id: "a".into(),
                state,
                at: 0,
                lock: None,
                extra: Extra::default(),
                staged: false,
                retried: 0,
                retention: 0,
                server: 0,
                grouped: false,
            }
        }
    }
}
