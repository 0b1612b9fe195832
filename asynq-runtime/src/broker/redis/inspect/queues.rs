//! Statistics of queues.

use std::time::Duration;

use chrono::DateTime;
use redis::Value;

use crate::{
    broker::{
        BrokerError, QueueStats,
        redis::{
            RedisBroker,
            groups::next_step,
            keys::Keys,
            reply,
            script::{Call, GROUPED, STATS},
        },
    },
    task::QueueName,
};

impl RedisBroker {
    pub(super) async fn stats(&self, queue: &QueueName) -> Result<QueueStats, BrokerError> {
        let keys = Keys::new(queue);
        let now = self.clock.now();
        let mut names = keys.containers();
        names.extend([keys.paused(), keys.processed_on(now), keys.failed_on(now), keys.processed(), keys.failed()]);
        let call = self.timed(&STATS, &names).arg(keys.prefix());
        let ask = async || read_stats(queue, reply::array(self.looking().send_one(call.clone()).await?)?);
        let (stats, walk) = ask().await?;
        if walk.next.is_none() {
            return Ok(stats);
        }
        let rest = self.grouped(&keys, &walk).await?;
        // The other places are counted again after the groups: a task that left a group meanwhile is counted twice
        // rather than never.
        let (mut stats, first) = ask().await?;
        let (names, tasks) = (first.names + rest.names, stats.aggregating + rest.tasks);
        let tasks = if rest.next.is_some() {
            let all = counter(&self.looking().send_one(Call::plain("SCARD").arg(keys.groups())).await?);
            estimate(tasks, names, all)
        } else {
            tasks
        };
        stats.size = stats.size - stats.aggregating + tasks;
        stats.aggregating = tasks;
        Ok(stats)
    }

    /// Continues a walk over the groups until enough of them are counted.
    async fn grouped(&self, keys: &Keys, begun: &Walk) -> Result<Walk, BrokerError> {
        let mut walk = Walk { next: begun.next.clone(), ..Walk::default() };
        while let Some(at) = walk.next.take() {
            // Where no task was found the walk goes on, so that no queue with tasks looks empty.
            if begun.names + walk.names >= COUNTED_GROUPS && begun.tasks + walk.tasks > 0 {
                walk.next = Some(at);
                break;
            }
            let call = GROUPED.on(&[keys.groups()]).arg(keys.prefix()).arg(at);
            let mut answer = reply::array(self.looking().send_one(call).await?)?.into_iter();
            walk.next = answer.next().and_then(next_step);
            walk.names += answer.next().as_ref().map_or(0, counter);
            walk.tasks += answer.next().as_ref().map_or(0, counter);
        }
        Ok(walk)
    }
}

/// Groups whose tasks are counted one by one; of a queue that has more, the tasks in all its groups are estimated.
const COUNTED_GROUPS: u64 = 2_000;

/// A part of a walk over the groups: its next step, and the names and tasks that it counted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Walk {
    next: Option<String>,
    names: u64,
    tasks: u64,
}

/// Estimates how many tasks wait in `all` groups if `tasks` wait in `names` of them. Redis scans a set in the order of
/// hashes, so that any part of it stands for the rest.
fn estimate(tasks: u64, names: u64, all: u64) -> u64 {
    let estimate = u128::from(tasks) * u128::from(all.max(names)) / u128::from(names.max(1));
    u64::try_from(estimate).unwrap_or(u64::MAX)
}

/// Reads a counter. One that is not a number counts as 0, and must not hide the rest.
pub(super) fn counter(value: &Value) -> u64 {
    reply::count(value).unwrap_or_default()
}

/// Reads the statistics, which count the groups of the first step of a walk only, and that step.
fn read_stats(queue: &QueueName, values: Vec<Value>) -> Result<(QueueStats, Walk), BrokerError> {
    let [next, names, now, counts @ .., since] = &values[..] else { return Err(reply::unexpected("no statistics")) };
    let counts: Vec<u64> = counts.iter().map(counter).collect();
    let [pending, active, scheduled, retry, archived, completed, aggregating, paused, ref counters @ ..] = counts[..]
    else {
        return Err(reply::unexpected("too few statistics"));
    };
    let [processed, failed, processed_total, failed_total] = *counters else {
        return Err(reply::unexpected("too few counters"));
    };
    let now_ns = reply::number(now).unwrap_or_default();
    let since = reply::number(since).unwrap_or(now_ns);
    let stats = QueueStats {
        size: pending + active + scheduled + retry + archived + completed + aggregating,
        pending,
        active,
        scheduled,
        retry,
        archived,
        completed,
        aggregating,
        processed,
        failed,
        processed_total,
        failed_total,
        latency: Duration::from_nanos(u64::try_from(now_ns.saturating_sub(since)).unwrap_or_default()),
        paused: paused == 1,
        ..QueueStats::empty(queue.clone(), DateTime::from_timestamp_nanos(now_ns))
    };
    Ok((stats, Walk { next: next_step(next.clone()), names: counter(names), tasks: aggregating }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_the_script_are_put_where_they_belong() {
        let text = |text: &str| Value::BulkString(text.into());
        let mut values = vec![text("17"), Value::Int(200), text("1700000005000000000")];
        values.extend((1..=7).map(Value::Int));
        values.push(Value::Int(1));
        values.extend([text("8"), text("3"), text("nonsense"), text("4"), text("1700000002000000000")]);
        assert!(read_stats(&QueueName::from_wire("q"), values[..7].to_vec()).is_err());
        let (stats, walk) = read_stats(&QueueName::from_wire("q"), values).unwrap();
        assert_eq!(walk, Walk { next: Some("17".into()), names: 200, tasks: 7 });
        assert_eq!((stats.pending, stats.aggregating, stats.size), (1, 7, 28));
        assert_eq!((stats.processed, stats.failed, stats.processed_total, stats.failed_total), (8, 3, 0, 4));
        assert_eq!((stats.latency, stats.paused), (Duration::from_secs(3), true));
        assert_eq!(stats.timestamp.timestamp(), 1_700_000_005);
    }

    #[test]
    fn the_counted_groups_stand_for_all_groups() {
        for (tasks, names, all, expected) in [(600, 200, 1_000, 3_000), (7, 200, 100, 7), (0, 0, 9, 0), (1, 3, 7, 2)] {
            assert_eq!(estimate(tasks, names, all), expected, "{tasks} in {names} of {all}");
        }
    }
}
