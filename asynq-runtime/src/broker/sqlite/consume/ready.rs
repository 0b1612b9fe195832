//! Finds the queues that have something to take.
//!
//! A queue that is asked for by name costs two seeks. For many queues, a walk over the index of the tasks is tried first, which
//! makes a step per queue that has tasks at all: a thousand empty queues cost nothing.

use std::collections::HashSet;

use rusqlite::params;

use crate::{broker::Quarantined, task::QueueName};

use super::super::{
    busy_queues::{FEW, most_steps, walk},
    row::text,
    sql,
    tx::View,
};

/// Returns those of `queues` that are not paused and have something to take. The number of steps is at most a small multiple of
/// the queues asked for, and of the queues that have tasks.
pub(super) fn of(view: &View<'_>, queues: &[QueueName], quarantined: Quarantined) -> rusqlite::Result<Vec<QueueName>> {
    let quarantined = quarantined != Quarantined::None;
    if queues.len() > FEW
        && let Some(mut ready) = anywhere(view, queues.len(), quarantined)?
    {
        let wanted: HashSet<&QueueName> = queues.iter().collect();
        ready.retain(|name| wanted.contains(name));
        return Ok(ready);
    }
    let ready = by_name(view, &names(queues.iter()), quarantined)?;
    Ok(ready.into_iter().map(|(_, name)| name).collect())
}

/// Returns the names as [`by_name`] and [`is_any`] take them: a JSON array (RFC 8259), which SQLite turns into rows.
pub(super) fn names<'a>(queues: impl Iterator<Item = &'a QueueName>) -> String {
    let mut array = String::from("[");
    for queue in queues {
        array.push_str(if array.len() == 1 { "\"" } else { ",\"" });
        for c in queue.as_str().chars() {
            match c {
                '"' | '\\' => array.extend(['\\', c]),
                '\0'..=' ' => array.extend(format!("\\u{:04x}", u32::from(c)).chars()),
                _ => array.push(c),
            }
        }
        array.push('"');
    }
    array + "]"
}

/// Returns the queues of `names` that are not paused and have something to take, in their order, with their numbers. With
/// `quarantined`, quarantined tasks count.
pub(super) fn by_name(view: &View<'_>, names: &str, quarantined: bool) -> rusqlite::Result<Vec<(i64, QueueName)>> {
    view.list(&sql::consume::READY, params![names, quarantined], |row| {
        Ok((row.get(0)?, QueueName::from_wire(&text(row, 1)?)))
    })
}

/// Returns whether [`by_name`] would find a queue.
pub(super) fn is_any(view: &View<'_>, names: &str, quarantined: bool) -> rusqlite::Result<bool> {
    Ok(view.find(&sql::consume::READY, params![names, quarantined], |_| Ok(()))?.is_some())
}

/// Returns every queue that is not paused and has something to take; `None` when the steps that `many` queues are worth do not reach
/// the last queue that has tasks.
fn anywhere(view: &View<'_>, many: usize, quarantined: bool) -> rusqlite::Result<Option<Vec<QueueName>>> {
    walk(view, &sql::consume::READY_ANYWHERE, params![most_steps(many), quarantined])
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::{
            busy_queues::testing::{file, names, steps},
            sql::Names,
        },
        *,
    };
    use crate::task::TaskState;

    fn found(view: &View<'_>, queues: &[QueueName]) -> Vec<QueueName> {
        let mut found = of(view, queues, Quarantined::One).unwrap();
        found.sort();
        let mut by_name: Vec<QueueName> = super::by_name(view, &super::names(queues.iter()), true)
            .unwrap()
            .into_iter()
            .map(|(_, name)| name)
            .collect();
        by_name.sort();
        assert_eq!(found, by_name, "the walk finds what the names do");
        assert_eq!(is_any(view, &super::names(queues.iter()), true).unwrap(), !found.is_empty());
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
        // Few queues are asked for by name.
        assert_eq!(found(&view, &names([4, 5, 6])), names([4]));
        assert_eq!(found(&view, &names([1, 2, 5, 6, 7, 8, 9])), names([]));
        assert_eq!(found(&view, &names([1, 2, 5, 6, 20])), names([20]));
        assert_eq!(found(&view, &[]), names([]));
    }

    #[test]
    fn a_queue_is_found_whatever_characters_its_name_has() {
        let connection = file(0, &[]);
        let queues: Vec<QueueName> = ["a\"b", "a\\b", "a\\\"", "tab\t", "two words", "ü", "日", "{x}", "a,b", "]"]
            .map(QueueName::from_wire)
            .into();
        for (q, queue) in (1..).zip(&queues) {
            connection.execute("INSERT INTO queue(q, name) VALUES (?1, ?2)", params![q, queue.as_str()]).unwrap();
            let insert = "INSERT INTO task(q, state, at, id, type) VALUES (?1, ?2, 0, 'a', 't')";
            connection.execute(insert, params![q, TaskState::Pending.number()]).unwrap();
        }
        let view = View::new(&connection, Names::Plain, 0);
        assert_eq!(found(&view, &queues), {
            let mut all = queues.clone();
            all.sort();
            all
        });
    }

    #[test]
    fn a_thousand_idle_queues_cost_no_more_steps_than_a_hundred() {
        let cost = |queues: i64| {
            let connection = file(queues, &[(queues / 2, TaskState::Pending.number())]);
            let view = View::new(&connection, Names::Plain, 0);
            assert_eq!(of(&view, &names(1..=queues), Quarantined::One).unwrap(), names([queues / 2]));
            steps(&view)
        };
        assert_eq!(cost(1_000), cost(100));
        assert!(cost(1_000) <= 200, "{} steps", cost(1_000));
    }

    #[test]
    fn a_server_of_few_queues_pays_for_no_others() {
        let pending = TaskState::Pending.number();
        let cost = |queues: i64| {
            let tasks: Vec<(i64, u8)> = (1..=queues).map(|q| (q, pending)).collect();
            let connection = file(queues, &tasks);
            let view = View::new(&connection, Names::Plain, 0);
            let wanted = names(queues - 19..=queues);
            assert_eq!(of(&view, &wanted, Quarantined::One).unwrap(), wanted);
            steps(&view)
        };
        assert_eq!(cost(1_000), cost(100));
        assert!(cost(1_000) <= 2_000, "{} steps", cost(1_000));
    }
}
