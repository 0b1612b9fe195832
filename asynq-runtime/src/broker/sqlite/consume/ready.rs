//! Finds the queues that have something to take.
//!
//! One queue costs a seek. Many are found by a walk over the index of the tasks, which makes a step per queue that has tasks at
//! all: a thousand empty queues cost nothing.

use std::collections::HashSet;

use rusqlite::params;

use crate::{
    broker::Quarantined,
    task::{Extra, QueueName, TaskState},
};

use super::super::{sql, tx::View};

/// So many queues are asked one by one.
const FEW: usize = 4;

/// Returns those of `queues` that are not paused and have something to take. It makes no more steps than a small multiple of the
/// queues asked for, nor of the queues that have tasks.
pub(super) fn of<'a>(
    view: &View<'_>,
    queues: impl ExactSizeIterator<Item = &'a QueueName>,
    quarantined: Quarantined,
) -> rusqlite::Result<Vec<QueueName>> {
    let queues: Vec<&QueueName> = queues.collect();
    let pending = if queues.len() > FEW { pending(view, queues.len())? } else { None };
    let asked: Vec<QueueName> = match pending {
        Some(pending) => {
            let served: HashSet<&QueueName> = queues.into_iter().collect();
            pending.into_iter().filter(|name| served.contains(name)).collect()
        }
        None => queues.into_iter().cloned().collect(),
    };
    let mut ready: Vec<QueueName> = Vec::new();
    for queue in asked {
        if is_ready(view, &queue, quarantined)? {
            ready.push(queue);
        }
    }
    Ok(ready)
}

/// The queues that have pending tasks; `None` when `most` steps do not reach the last of them.
fn pending(view: &View<'_>, most: usize) -> rusqlite::Result<Option<Vec<QueueName>>> {
    let pending = i64::from(TaskState::Pending.number());
    let (mut found, mut from) = (Vec::new(), (i64::MIN, 0_i64));
    for _ in 0..most {
        let next = view.find(&sql::CONSUME_NEXT_STATE, [from.0, from.1], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
        })?;
        let Some((q, state)) = next else { return Ok(Some(found)) };
        if state == pending {
            found.extend(view.find(&sql::QUEUE_NAME, [q], |row| Ok(QueueName::from_wire(&row.get::<_, String>(0)?)))?);
        }
        from = if state < pending { (q, pending) } else { (q.saturating_add(1), 0) };
    }
    Ok(None)
}

fn is_ready(view: &View<'_>, queue: &QueueName, quarantined: Quarantined) -> rusqlite::Result<bool> {
    let limit = i64::from(Extra::DEFAULT_MAX_CRASHES);
    let found = match quarantined {
        Quarantined::All | Quarantined::One => view.find(&sql::CONSUME_READY, [queue.as_str()], |_| Ok(()))?,
        Quarantined::None => view.find(&sql::CONSUME_READY_SPARING, params![queue.as_str(), limit], |_| Ok(()))?,
    };
    Ok(found.is_some())
}

#[cfg(test)]
mod tests {
    use rusqlite::{Connection, StatementStatus};

    use super::{
        super::super::{migrate, sql::Names},
        *,
    };

    /// How often statements have run on this connection.
    fn statements(view: &View<'_>) -> i32 {
        sql::ALL.iter().map(|(_, sql)| view.statement(sql).unwrap().get_status(StatementStatus::Run)).sum()
    }

    /// A file with so many queues; their tasks are pairs of a queue and a state.
    fn file(queues: i64, tasks: &[(i64, u8)]) -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
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

    fn names(numbers: impl IntoIterator<Item = i64>) -> Vec<QueueName> {
        numbers.into_iter().map(|q| QueueName::new(&format!("q{q}")).unwrap()).collect()
    }

    fn found(view: &View<'_>, queues: &[QueueName]) -> Vec<QueueName> {
        let mut found = of(view, queues.iter(), Quarantined::One).unwrap();
        found.sort();
        found
    }

    #[test]
    fn those_with_pending_tasks_are_found_among_many_and_among_few() {
        let [active, pending, archived] =
            [TaskState::Active, TaskState::Pending, TaskState::Archived].map(|s| s.number());
        let tasks = [
            (2, active),
            (3, pending),
            (4, active),
            (4, pending),
            (4, archived),
            (5, archived),
            (6, pending),
            (9, archived),
            (9, active),
            (20, pending),
        ];
        let connection = file(20, &tasks);
        connection.execute("UPDATE queue SET paused_at = 1 WHERE q = 6", []).unwrap();
        let view = View::new(&connection, Names::Plain, 0);
        assert_eq!(found(&view, &names(1..=20)), names([20, 3, 4]));
        assert_eq!(found(&view, &names([4, 5, 6])), names([4]));
        assert_eq!(found(&view, &names([1, 2, 5, 6, 7, 8, 9])), names([]));
        // More queues have tasks than are asked for, so that these are asked one by one.
        assert_eq!(found(&view, &names([1, 2, 5, 6, 20])), names([20]));
        assert_eq!(found(&view, &[]), names([]));
    }

    #[test]
    fn a_thousand_queues_cost_as_many_statements_as_ten() {
        let cost = |queues: i64| {
            let connection = file(queues, &[(queues / 2, TaskState::Pending.number())]);
            let view = View::new(&connection, Names::Plain, 0);
            let before = statements(&view);
            assert_eq!(found(&view, &names(1..=queues)), names([queues / 2]));
            statements(&view) - before
        };
        assert_eq!(cost(1_000), cost(10));
        assert!(cost(1_000) <= 6, "{} statements", cost(1_000));
    }

    #[test]
    fn a_server_of_few_queues_pays_for_no_others() {
        let pending = TaskState::Pending.number();
        let tasks: Vec<(i64, u8)> = (1..=1_000).map(|q| (q, pending)).collect();
        let connection = file(1_000, &tasks);
        let view = View::new(&connection, Names::Plain, 0);
        let before = statements(&view);
        assert_eq!(found(&view, &names(991..=1_000)).len(), 10);
        assert!(statements(&view) - before <= 30, "{} statements", statements(&view) - before);
    }
}
