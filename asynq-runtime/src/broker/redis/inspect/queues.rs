//! The numbers of queues.

use std::time::Duration;

use chrono::{DateTime, Days, Utc};
use redis::Value;

use crate::{
    broker::{
        BrokerError, DayStats, QueueStats,
        redis::{
            RedisBroker,
            groups::next_step,
            keys::{Keys, QUEUES},
            reply,
            script::{Call, GROUPED, MEMORY, STATS},
        },
    },
    task::QueueName,
};

impl RedisBroker {
    pub(super) async fn all_queues(&self) -> Result<Vec<QueueName>, BrokerError> {
        // On the main connection: servers ask for the names as well, and look at nothing else.
        let names = reply::array(self.router.send_one(Call::plain("SMEMBERS").arg(QUEUES)).await?)?;
        let mut names: Vec<QueueName> =
            names.into_iter().filter_map(reply::text).map(|name| QueueName::from_wire(&name)).collect();
        names.sort();
        Ok(names)
    }

    pub(super) async fn stats(&self, queue: &QueueName) -> Result<QueueStats, BrokerError> {
        let keys = Keys::new(queue);
        let now = self.clock.now();
        let mut names = keys.containers();
        names.extend([keys.paused(), keys.processed_on(now), keys.failed_on(now), keys.processed(), keys.failed()]);
        let call = STATS.on(&names).arg(self.clock.argument()).arg(keys.prefix());
        let ask = async || read_stats(queue, reply::array(self.looking().send_one(call.clone()).await?)?);
        let (stats, next) = ask().await?;
        let Some(next) = next else { return Ok(stats) };
        let more = self.grouped(&keys, next).await?;
        // The rest is asked again after the groups: a task that left one meanwhile is counted twice rather than nowhere.
        let (mut stats, _) = ask().await?;
        stats.aggregating += more;
        stats.size += more;
        Ok(stats)
    }

    /// How many tasks wait in the groups from this step of a walk on.
    async fn grouped(&self, keys: &Keys, step: String) -> Result<u64, BrokerError> {
        let (mut step, mut tasks) = (Some(step), 0);
        while let Some(at) = step {
            let call = GROUPED.on(&[keys.groups()]).arg(keys.prefix()).arg(at);
            let mut answer = reply::array(self.looking().send_one(call).await?)?.into_iter();
            step = answer.next().and_then(next_step);
            tasks += answer.next().as_ref().map_or(0, counter);
        }
        Ok(tasks)
    }

    pub(super) async fn set_paused(&self, queue: &QueueName) -> Result<bool, BrokerError> {
        let now = self.clock.now().timestamp();
        let call = Call::plain("SET").arg(Keys::new(queue).paused()).arg(now).arg("NX");
        Ok(self.router.send_one(call).await? != Value::Nil)
    }

    pub(super) async fn clear_paused(&self, queue: &QueueName) -> Result<bool, BrokerError> {
        let call = Call::plain("DEL").arg(Keys::new(queue).paused());
        Ok(reply::number(&self.router.send_one(call).await?) == Some(1))
    }
}

/// Tasks of each state, and groups, that asynq's estimate looks at.
const SAMPLES: (usize, usize) = (20, 5);
/// How many days the counters are kept.
const MOST_DAYS: usize = 90;

impl RedisBroker {
    pub(super) async fn days(&self, queue: &QueueName, days: usize) -> Result<Vec<DayStats>, BrokerError> {
        let (keys, now) = (Keys::new(queue), self.clock.now());
        // asynq goes back by 24 hours, which in UTC are days.
        let days: Vec<DateTime<Utc>> =
            (0..days.min(MOST_DAYS)).map_while(|n| now.checked_sub_days(Days::new(n as u64))).collect();
        if days.is_empty() {
            return Ok(Vec::new());
        }
        let mut call = Call::plain("MGET");
        for &day in &days {
            call.push(keys.processed_on(day));
            call.push(keys.failed_on(day));
        }
        let counters = reply::array(self.looking().send_one(call).await?)?;
        let mut counters = counters.iter().map(counter);
        let mut next = || counters.next().ok_or_else(|| reply::unexpected("too few counters"));
        days.iter().map(|day| Ok(DayStats::new(day.date_naive(), next()?, next()?))).collect()
    }

    pub(super) async fn estimate_memory(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        let keys = Keys::new(queue);
        let call = MEMORY.on(&keys.containers()).arg(keys.prefix()).arg(SAMPLES.0).arg(SAMPLES.1);
        let bytes = reply::number(&self.looking().send_one(call).await?);
        bytes.and_then(|bytes| u64::try_from(bytes).ok()).ok_or_else(|| reply::unexpected("no number"))
    }
}

/// A counter that is no number must not hide the rest.
fn counter(value: &Value) -> u64 {
    reply::number(value).and_then(|count| u64::try_from(count).ok()).unwrap_or_default()
}

/// The numbers, with the tasks of the first step of a walk over the groups, and where that walk goes on.
fn read_stats(queue: &QueueName, values: Vec<Value>) -> Result<(QueueStats, Option<String>), BrokerError> {
    let [next, now, counts @ .., since] = &values[..] else { return Err(reply::unexpected("no statistics")) };
    let next = next_step(next.clone());
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
    Ok((stats, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_the_script_are_put_where_they_belong() {
        let text = |text: &str| Value::BulkString(text.into());
        let mut values = vec![text("17"), text("1700000005000000000")];
        values.extend((1..=7).map(Value::Int));
        values.push(Value::Int(1));
        values.extend([text("8"), text("3"), text("nonsense"), text("4"), text("1700000002000000000")]);
        assert!(read_stats(&QueueName::from_wire("q"), values[..6].to_vec()).is_err());
        let (stats, next) = read_stats(&QueueName::from_wire("q"), values).unwrap();
        assert_eq!(next.as_deref(), Some("17"));
        assert_eq!((stats.pending, stats.aggregating, stats.size), (1, 7, 28));
        assert_eq!((stats.processed, stats.failed, stats.processed_total, stats.failed_total), (8, 3, 0, 4));
        assert_eq!((stats.latency, stats.paused), (Duration::from_secs(3), true));
        assert_eq!(stats.timestamp.timestamp(), 1_700_000_005);
    }
}
