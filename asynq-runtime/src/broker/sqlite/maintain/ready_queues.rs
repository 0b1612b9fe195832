//! Finds the queues in which housekeeping may have something to do, with a step per queue that has anything at all.

use std::collections::HashSet;

use crate::{broker::ArchivePolicy, task::QueueName};

use super::{
    super::{busy_queues::BusyQueues, groups, row::text, sql, tx::View},
    first_day, trim,
};

/// Returns when the next task is due, for each of `queues` that has scheduled tasks or retries.
pub(super) fn dues(view: &View<'_>, queues: &[QueueName]) -> rusqlite::Result<Vec<(QueueName, i64)>> {
    let (busy, mut dues) = (BusyQueues::with_tasks(view, queues.len())?, Vec::new());
    for queue in queues.iter().filter(|queue| busy.may_include(queue)) {
        let due = view.find(&sql::maintain::NEXT_DUE, [queue.as_str()], |row| row.get::<_, Option<i64>>(0))?;
        dues.extend(due.flatten().map(|due| (queue.clone(), due)));
    }
    Ok(dues)
}

/// Returns the queues that have completed or archived tasks to delete, or sets or receipts whose time has passed.
pub(super) fn cleaning(view: &View<'_>, policies: &[ArchivePolicy]) -> rusqlite::Result<Vec<QueueName>> {
    let tasks = BusyQueues::with_tasks(view, policies.len())?;
    let sets = BusyQueues::with_sets(view, policies.len())?;
    let mut ready = Vec::new();
    for ArchivePolicy { queue, max_age, max_size } in policies {
        if tasks.may_include(queue) && trim::is_anything(view, queue, *max_age, *max_size)?
            || sets.may_include(queue) && groups::is_over(view, queue)?
        {
            ready.push(queue.clone());
        }
    }
    Ok(ready)
}

/// Returns those of `queues` that have tasks, or counters of days long past. The first queue, if there is one, is always among them,
/// because a sweep also removes what schedules and semaphores have left, which belongs to no queue.
pub(super) fn sweeping(view: &View<'_>, queues: &[QueueName]) -> rusqlite::Result<Vec<QueueName>> {
    let busy = BusyQueues::with_tasks(view, queues.len())?;
    let old =
        view.list(&sql::count::WITH_OLD_DAYS, [first_day(view.now)], |row| Ok(QueueName::from_wire(&text(row, 0)?)))?;
    let with_old_days: HashSet<QueueName> = old.into_iter().collect();
    let is_ready = |queue: &&QueueName| busy.may_include(queue) || with_old_days.contains(*queue);
    let (first, rest) = queues.split_at(queues.len().min(1));
    Ok(first.iter().chain(rest.iter().filter(is_ready)).cloned().collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        super::super::{
            busy_queues::testing::{file, names, steps},
            groups::with_groups,
            sql::Names,
        },
        *,
    };
    use crate::task::TaskState;

    /// A day in milliseconds.
    const DAY: i64 = 86_400_000;
    const NOW: i64 = 1_000 * DAY;

    fn policies(queues: &[QueueName]) -> Vec<ArchivePolicy> {
        let max_age = Duration::from_secs(86_400);
        queues.iter().map(|queue| ArchivePolicy { queue: queue.clone(), max_age, max_size: 10 }).collect()
    }

    /// Returns the answers of all four: what is due, and what is worth cleaning, sweeping and aggregating.
    fn answers(view: &View<'_>, queues: &[QueueName]) -> [Vec<QueueName>; 4] {
        let due = dues(view, queues).unwrap().into_iter().map(|(queue, _)| queue).collect();
        let cleaning = cleaning(view, &policies(queues)).unwrap();
        [due, cleaning, sweeping(view, queues).unwrap(), with_groups(view, queues).unwrap()]
    }

    #[test]
    fn among_many_queues_those_are_found_that_are_found_alone() {
        let [scheduled, retry, archived, completed, grouped] =
            [TaskState::Scheduled, TaskState::Retry, TaskState::Archived, TaskState::Completed, TaskState::Aggregating]
                .map(|state| state.number());
        let tasks =
            [(2, scheduled), (3, retry), (4, archived), (5, completed), (6, grouped), (20, scheduled), (20, retry)];
        let connection = file(30, &tasks);
        connection.execute("UPDATE task SET grp = 'g' WHERE q = 6", []).unwrap();
        // A receipt outlives the tasks of its queue, and so do counters.
        let receipt = "INSERT INTO batch(q, grp, deadline, id, ended) VALUES (8, 'g', 1, 'set', 1)";
        connection.execute(receipt, []).unwrap();
        let stat = "INSERT INTO stat(q, day, processed, failed) VALUES (9, 900, 1, 0), (10, 999, 1, 0), (10, -1, 1, 0)";
        connection.execute(stat, []).unwrap();
        let view = View::new(&connection, Names::Plain, NOW);
        let due = names([2, 3, 20]);
        let worth_sweeping = names([1, 2, 3, 4, 5, 6, 9, 20]);
        let found = answers(&view, &names(1..=30));
        assert_eq!(found, [due, names([4, 5, 8]), worth_sweeping, names([6])]);
        let [due, cleaning, _, grouped] = found;
        for (q, queue) in (1..=30).zip(names(1..=30)) {
            let is_in = |found: &[QueueName]| found.iter().filter(|name| **name == queue).cloned().collect::<Vec<_>>();
            // The first queue of those that are asked is always worth a sweep.
            let alone = [is_in(&due), is_in(&cleaning), names([q]), is_in(&grouped)];
            assert_eq!(answers(&view, std::slice::from_ref(&queue)), alone, "queue {q}");
        }
    }

    #[test]
    fn a_thousand_idle_queues_cost_no_more_steps_than_a_hundred() {
        let cost = |queues: i64| {
            let connection = file(queues, &[(queues / 2, TaskState::Pending.number())]);
            let view = View::new(&connection, Names::Plain, NOW);
            let names = names(1..=queues);
            assert!(dues(&view, &names).unwrap().is_empty());
            assert!(cleaning(&view, &policies(&names)).unwrap().is_empty());
            assert!(with_groups(&view, &names).unwrap().is_empty());
            steps(&view)
        };
        assert_eq!(cost(1_000), cost(100));
        assert!(cost(1_000) <= 1_000, "{} steps", cost(1_000));
    }
}
