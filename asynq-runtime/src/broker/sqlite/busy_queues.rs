//! Finds the queues that have rows among many, so that the cost of a call grows with those and not with the empty ones.
//!
//! A question to one queue costs some seeks. Where many queues are asked, a skip scan of an index comes first: it makes a step per
//! queue that has rows there, whatever the number of the others.

use std::collections::HashSet;

use rusqlite::Params;

use crate::task::QueueName;

use super::{
    row::{Text, limit_of},
    sql::{self, Sql},
    tx::View,
};

/// Most queues that are asked one by one without a walk.
pub(super) const FEW: usize = 16;

/// The queues that may have rows of one kind.
#[derive(Debug)]
pub(super) struct BusyQueues(Option<HashSet<QueueName>>);

impl BusyQueues {
    /// Finds the queues that have tasks, for a caller that asks `many` queues.
    pub(super) fn with_tasks(view: &View<'_>, many: usize) -> rusqlite::Result<Self> {
        Self::find(view, &sql::queue::WITH_TASKS, many)
    }

    /// Finds the queues that have sets of grouped tasks, or receipts of such sets.
    pub(super) fn with_sets(view: &View<'_>, many: usize) -> rusqlite::Result<Self> {
        Self::find(view, &sql::queue::WITH_SETS, many)
    }

    fn find(view: &View<'_>, walk_of_one_kind: &Sql, many: usize) -> rusqlite::Result<Self> {
        if many <= FEW {
            return Ok(Self(None));
        }
        Ok(Self(walk(view, walk_of_one_kind, [most_steps(many)])?.map(HashSet::from_iter)))
    }

    /// Returns whether a queue may have such rows. Every queue may where no walk was made, or where it did not reach its end.
    pub(super) fn may_include(&self, queue: &QueueName) -> bool {
        self.0.as_ref().is_none_or(|found| found.contains(queue))
    }
}

/// Returns the most steps of a walk for a caller that asks `many` queues. One step leads to the first queue, and one behind the last.
pub(super) fn most_steps(many: usize) -> i64 {
    limit_of(many).saturating_add(2)
}

/// Runs a skip scan, and returns the names of the queues that it found; `None` if it ended before the last queue. Each row of the
/// statement is the number of a queue and its name or null; a last row with null in place of the number marks a whole scan. A name
/// that is not UTF-8 is left out: no caller can ask for its queue, and the text in its place could be the name of another.
pub(super) fn walk(view: &View<'_>, sql: &Sql, params: impl Params) -> rusqlite::Result<Option<Vec<QueueName>>> {
    let steps = view.list(sql, params, |row| Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<Text>>(1)?)))?;
    let is_whole = steps.last().is_some_and(|(q, _)| q.is_none());
    let names = steps.into_iter().filter_map(|(_, name)| name).filter(|name| name.is_sound);
    Ok(is_whole.then(|| names.map(|name| QueueName::from_wire(&name.text)).collect()))
}

#[cfg(test)]
pub(super) mod testing {
    use rusqlite::{Connection, StatementStatus, params};

    use super::{
        super::{connection, migrate},
        *,
    };

    /// Returns how many steps SQLite's machine has made for all statements on this connection.
    pub(in super::super) fn steps(view: &View<'_>) -> i32 {
        sql::ALL.iter().map(|(_, sql)| view.statement(sql).unwrap().get_status(StatementStatus::VmStep)).sum()
    }

    /// Returns a file with `queues` queues; `tasks` are pairs of a queue and a state.
    pub(in super::super) fn file(queues: i64, tasks: &[(i64, u8)]) -> Connection {
        let mut connection = connection::open_memory().unwrap();
        migrate::settle_in(&mut connection, false, "here", |_| Ok(())).unwrap();
        connection.set_prepared_statement_cache_capacity(sql::ALL.len());
        for q in 1..=queues {
            connection.execute("INSERT INTO queue(q, name) VALUES (?1, 'q' || ?1)", [q]).unwrap();
        }
        for (n, (q, state)) in tasks.iter().enumerate() {
            let insert = "INSERT INTO task(q, state, at, id, type) VALUES (?1, ?2, 0, ?3, 't')";
            connection.execute(insert, params![q, state, n.to_string()]).unwrap();
        }
        connection
    }

    /// Returns the names of the queues with these numbers.
    pub(in super::super) fn names(numbers: impl IntoIterator<Item = i64>) -> Vec<QueueName> {
        numbers.into_iter().map(|q| QueueName::new(&format!("q{q}")).unwrap()).collect()
    }
}
