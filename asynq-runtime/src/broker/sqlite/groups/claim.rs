//! Takes a set out of a group that is ripe.

use std::time::Duration;

use rusqlite::params;

use crate::{
    broker::{GroupRules, TaskSet},
    task::{GroupName, QueueName, TaskState},
};

use super::super::{
    candidate::Candidate,
    row::{after, instant, limit_of},
    sql,
    tx::{Tx, View},
};

/// The shortest grace there is.
const SHORTEST_GRACE: Duration = Duration::from_secs(1);

/// A task that joined its group this much later than now was stamped by a clock that has been set back since.
const BELIEVABLE: Duration = Duration::from_secs(5);

/// Takes a set, if the rules say so.
pub(super) fn claim(
    tx: &mut Tx<'_>,
    queue: &QueueName,
    group: &GroupName,
    rules: &GroupRules,
) -> rusqlite::Result<Option<TaskSet>> {
    let Some(q) = queue_of_ripe(&tx.view, queue, group, rules)? else { return Ok(None) };
    let waiting = longest_waiting(&tx.view, q, group, rules.enough().unwrap_or(TaskSet::MOST), true)?;
    let crashes = waiting.iter().map(Candidate::crashes).max().unwrap_or(0);
    let is_full = waiting.iter().map(Candidate::bytes).sum::<usize>() >= TaskSet::BYTES;
    let deadline = after(tx.view.now, TaskSet::DEADLINE);
    let id = uuid::Uuid::now_v7().to_string();
    tx.view.execute(&sql::groups::OPEN_SET, params![q, group.as_str(), deadline, id])?;
    let number = tx.view.last_row();
    let mut members = Vec::with_capacity(waiting.len());
    for task in waiting {
        if task.can_never_run() {
            task.set_aside(tx, TaskState::Aggregating)?;
            continue;
        }
        tx.view.execute(&sql::groups::JOIN_SET, [task.seq, number])?;
        members.extend(task.into_member(queue));
    }
    if members.is_empty() {
        tx.view.execute(&sql::groups::FORGET_SET, [number])?;
        return Ok(None);
    }
    let (queue, group) = (queue.clone(), group.clone());
    Ok(Some(TaskSet { queue, group, id, number, deadline: instant(deadline), members, is_full, crashes }))
}

/// Returns the number of the queue, if the rules let a set be taken now.
pub(super) fn queue_of_ripe(
    view: &View<'_>,
    queue: &QueueName,
    group: &GroupName,
    rules: &GroupRules,
) -> rusqlite::Result<Option<i64>> {
    let Some(q) = view.queue(queue)? else { return Ok(None) };
    Ok(is_ripe(view, q, group, rules)?.then_some(q))
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
fn longest_waiting(
    view: &View<'_>,
    q: i64,
    group: &GroupName,
    most: usize,
    with_messages: bool,
) -> rusqlite::Result<Vec<Candidate>> {
    let params = params![q, group.as_str(), limit_of(most), with_messages];
    Ok(Candidate::list(view, &sql::groups::WAITING, params, TaskSet::BYTES)?.0)
}

/// Returns the first tasks of a group without their messages.
pub(super) fn without_messages(
    view: &View<'_>,
    queue: &QueueName,
    group: &GroupName,
) -> rusqlite::Result<Vec<Candidate>> {
    let Some(q) = view.queue(queue)? else { return Ok(Vec::new()) };
    longest_waiting(view, q, group, TaskSet::MOST, false)
}

/// Whether a group is ripe by time alone: its first task joined it at `first`, its last one at `last`.
fn has_waited(rules: &GroupRules, now: i64, first: i64, last: i64) -> bool {
    // Nothing tells how long a group has waited whose tasks joined by another time; it would wait for that time to come again.
    if last > after(now, BELIEVABLE) {
        return true;
    }
    let since = |joined: i64, limit| after(joined, limit) <= now;
    rules.max_delay.is_some_and(|limit| since(first, limit)) || since(last, rules.grace.max(SHORTEST_GRACE))
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
            (rules(1_000, None), 15_000, 15_000, false),
            (rules(1_000, None), 9_500, 15_001, true),
            (rules(1_000, None), 7_210_000, 7_210_000, true),
        ] {
            assert_eq!(has_waited(&rules, 10_000, first, last), expected, "{rules:?} {first} {last}");
        }
    }
}
