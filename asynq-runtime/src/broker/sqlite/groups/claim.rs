//! Takes a set out of a group that is ripe.

use std::time::Duration;

use bytes::Bytes;
use rusqlite::params;

use crate::{
    broker::{GroupRules, SetMember, TaskSet},
    task::{Extra, GroupName, QueueName, TaskId, TaskState},
};

use super::super::{
    consume::set_aside_without_message,
    row::{Facts, after, instant, message, text, text_or_null},
    sql,
    tx::{Tx, View},
};

/// The shortest grace there is.
const SHORTEST_GRACE: Duration = Duration::from_secs(1);

/// Takes a set, if the rules say so.
pub(super) fn claim(
    tx: &mut Tx<'_>,
    queue: &QueueName,
    group: &GroupName,
    rules: &GroupRules,
) -> rusqlite::Result<Option<TaskSet>> {
    let Some(q) = tx.view.queue(queue)? else { return Ok(None) };
    if !is_ripe(&tx.view, q, group, rules)? {
        return Ok(None);
    }
    let waiting = longest_waiting(&tx.view, q, group, rules.enough().unwrap_or(TaskSet::MOST))?;
    let bytes: usize = waiting.iter().filter_map(|task| task.msg.as_ref()).map(Vec::len).sum();
    let is_full = bytes >= TaskSet::BYTES;
    let deadline = after(tx.view.now, TaskSet::DEADLINE);
    let id = uuid::Uuid::now_v7().to_string();
    tx.view.execute(&sql::groups::OPEN_SET, params![q, group.as_str(), deadline, id])?;
    let number = tx.view.last_row();
    let mut members = Vec::with_capacity(waiting.len());
    for task in waiting {
        let Some(bytes) = task.msg else {
            // Without its message the task cannot be part of a set; it is archived, where people see it.
            set_aside_without_message(tx, q, task.seq, task.uniq.as_deref(), &task.id, &task.extra)?;
            tx.left(q, TaskState::Aggregating);
            tx.came(q, TaskState::Archived);
            continue;
        };
        tx.view.execute(&sql::groups::JOIN_SET, [task.seq, number])?;
        let id = TaskId::from_wire(&task.id);
        let message = message(Bytes::from(bytes), queue, &id, &task.facts);
        members.push(SetMember { id, message, extra: task.extra });
    }
    if members.is_empty() {
        tx.view.execute(&sql::groups::FORGET_SET, [number])?;
        return Ok(None);
    }
    let (queue, group) = (queue.clone(), group.clone());
    Ok(Some(TaskSet { queue, group, id, number, deadline: instant(deadline), members, is_full }))
}

/// Whether the rules let a set be taken now.
pub(super) fn is_ripe(view: &View<'_>, q: i64, group: &GroupName, rules: &GroupRules) -> rusqlite::Result<bool> {
    let span = view.find(&sql::groups::SPAN, params![q, group.as_str()], |row| {
        Ok(row.get::<_, Option<i64>>(0)?.zip(row.get::<_, Option<i64>>(1)?))
    })?;
    let Some((first, last)) = span.flatten() else { return Ok(false) };
    if has_waited(rules, view.now, first, last) {
        return Ok(true);
    }
    let Some(enough) = rules.enough() else { return Ok(false) };
    Ok(view.find(&sql::groups::REACHES, params![q, group.as_str(), limit_of(enough - 1)], |_| Ok(()))?.is_some())
}

/// Returns the first tasks of a group, until they are `most` or have [`TaskSet::BYTES`] bytes.
fn longest_waiting(view: &View<'_>, q: i64, group: &GroupName, most: usize) -> rusqlite::Result<Vec<Waiting>> {
    let mut statement = view.statement(&sql::groups::WAITING)?;
    let mut rows = statement.query(params![q, group.as_str(), limit_of(most)])?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    while bytes < TaskSet::BYTES
        && let Some(row) = rows.next()?
    {
        let task = Waiting::read(row)?;
        bytes += task.msg.as_ref().map_or(0, Vec::len);
        found.push(task);
    }
    Ok(found)
}

/// Whether a group is ripe by time alone: its first task joined it at `first`, its last one at `last`.
fn has_waited(rules: &GroupRules, now: i64, first: i64, last: i64) -> bool {
    let since = |joined: i64, limit| after(joined, limit) <= now;
    rules.max_delay.is_some_and(|limit| since(first, limit)) || since(last, rules.grace.max(SHORTEST_GRACE))
}

fn limit_of(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A row of [`sql::groups::WAITING`].
#[derive(Debug)]
struct Waiting {
    seq: i64,
    id: String,
    uniq: Option<String>,
    extra: Extra,
    facts: Facts,
    msg: Option<Vec<u8>>,
}

impl Waiting {
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get(0)?,
            id: text(row, 1)?,
            uniq: text_or_null(row, 2)?,
            extra: row.get::<_, Option<Vec<u8>>>(3)?.as_deref().map(Extra::from_bytes).unwrap_or_default(),
            facts: Facts { retried: row.get(4)?, err: row.get(5)?, failed_at: row.get(6)?, completed_at: None },
            msg: row.get(7)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_ripe_when_no_task_joins_any_more_or_the_first_has_waited_enough() {
        let rules = |grace, max_delay: Option<u64>| GroupRules {
            grace: Duration::from_millis(grace),
            max_delay: max_delay.map(Duration::from_millis),
            max_size: None,
        };
        for (rules, first, last, expected) in [
            (rules(1_000, None), 0, 9_001, false),
            (rules(1_000, None), 0, 9_000, true),
            (rules(1_000, Some(5_000)), 5_001, 9_999, false),
            (rules(1_000, Some(5_000)), 5_000, 9_999, true),
            (rules(u64::MAX, Some(u64::MAX)), 0, 0, false),
            (rules(1_000, None), 11_000, 11_000, false),
            (rules(0, None), 9_001, 9_001, false),
        ] {
            assert_eq!(has_waited(&rules, 10_000, first, last), expected, "{rules:?} {first} {last}");
        }
    }
}
