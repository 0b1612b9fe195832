//! Entries as asynq's tools see them.

use std::{sync::Arc, time::Duration};

use asynq_runtime::{
    broker::{Broker, NewTask, When},
    task::{ListedTask, SchedulerEntry, TaskMessage, Timestamp},
};
use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};

use super::plan::ListingRow;
use crate::Periodic;

/// Lists the entries, and returns whether that worked; best effort. Until the list expires, schedulers of an older
/// release do not plan its entries.
pub(super) async fn show(broker: Arc<dyn Broker>, scheduler: String, rows: Vec<ListingRow>, ttl: Duration) -> bool {
    let now = broker.now();
    let entries: Vec<_> = rows.into_iter().map(|row| entry(&row, now)).collect();
    let ttl = Duration::from_secs(ttl.as_secs().max(1) + u64::from(ttl.subsec_nanos() > 0));
    let shown = broker.show_entries(&scheduler, &entries, ttl).await;
    if let Err(error) = &shown {
        log!(debug, "the entries are not listed for asynq's tools: {error}");
    }
    shown.is_ok()
}

/// Takes a scheduler off the list, and returns whether that worked; best effort.
pub(super) async fn withdraw(broker: &dyn Broker, scheduler: &str) -> bool {
    let withdrawn = broker.withdraw_entries(scheduler).await;
    if let Err(error) = &withdrawn {
        log!(debug, "the entries are still listed, they disappear by themselves: {error}");
    }
    withdrawn.is_ok()
}

pub(crate) fn entry((periodic, previous, next): &ListingRow, now: DateTime<Utc>) -> SchedulerEntry {
    let bound = periodic.bind_plain(now).ok();
    let time = |time: &Option<DateTime<Utc>>| Some(time.map_or(Timestamp::NEVER, Into::into));
    SchedulerEntry {
        id: periodic.id().to_string(),
        spec: periodic.spec().to_string(),
        task_type: periodic.job().to_owned(),
        task_payload: bound.as_ref().map(|task| task.message.payload.clone()).unwrap_or_default(),
        enqueue_options: bound.as_ref().map(options).unwrap_or_default(),
        next_enqueue_time: time(next),
        prev_enqueue_time: time(previous),
        task: bound.as_ref().map(|task| listed(periodic, task, now)),
        compat: periodic.spec().is_compat(),
    }
}

/// Returns the task of a tick, for a program that runs the entry on request. The task is bound a second time, an hour later: a deadline
/// or an expiry that differs then counts from the enqueue, and that program has to move it.
fn listed(periodic: &Periodic, task: &NewTask, now: DateTime<Utc>) -> ListedTask {
    let later = periodic.bind_plain(now + TimeDelta::hours(1)).ok();
    let moves = |time: fn(&NewTask) -> Option<i64>| later.as_ref().is_some_and(|later| time(later) != time(task));
    let message = TaskMessage { id: String::new(), payload: Bytes::new(), ..task.message.clone() };
    let (delay_ms, at_ms) = match task.when {
        When::Now => (0, 0),
        When::In(delay) => (i64::try_from(delay.as_millis()).unwrap_or(i64::MAX), 0),
        When::At(at) => (0, at.timestamp_millis()),
    };
    ListedTask {
        message: message.encode().into(),
        extra: task.extra.to_bytes().unwrap_or_default().into(),
        bound_ms: now.timestamp_millis(),
        deadline_moves: moves(|task| Some(task.message.deadline)),
        expiry_moves: moves(|task| task.extra.expires_ms),
        lock_seconds: task.unique.as_ref().map_or(0, |lock| lock.ttl.as_secs()),
        delay_ms,
        at_ms,
    }
}

/// A task's options as Go writes them; those that have asynq's default are left out.
fn options(task: &NewTask) -> Vec<String> {
    let message = &task.message;
    let seconds = |name: &str, seconds: i64| (seconds > 0).then(|| format!("{name}({})", go_duration(seconds)));
    let is_default = message.timeout == 1_800 && message.deadline == 0;
    [
        (message.queue != "default").then(|| format!("Queue({})", quoted(&message.queue))),
        (message.retry != 25).then(|| format!("MaxRetry({})", message.retry)),
        if is_default { None } else { seconds("Timeout", message.timeout) },
        DateTime::from_timestamp(message.deadline, 0)
            .filter(|_| message.deadline > 0)
            .map(|at| format!("Deadline({})", at.format("%a %b %e %H:%M:%S UTC %Y"))),
        task.unique.as_ref().and_then(|lock| seconds("Unique", i64::try_from(lock.ttl.as_secs()).unwrap_or(i64::MAX))),
        match task.when {
            When::In(delay) => seconds("ProcessIn", i64::try_from(delay.as_secs()).unwrap_or(i64::MAX)),
            _ => None,
        },
        seconds("Retention", message.retention),
        (!message.group_key.is_empty()).then(|| format!("Group({})", quoted(&message.group_key))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Go's `Duration.String` of whole seconds.
fn go_duration(seconds: i64) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

/// Quotes the name of a queue or a group as Go's `%q` does.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use asynq_runtime::RawTask;

    use super::*;
    use crate::CronSpec;

    #[test]
    fn options_are_gos() {
        let spec = CronSpec::parse("@daily").expect("a spec");
        let task = RawTask::new("report", "{}").queue("lo\"w").retry(3).timeout("90s").unique("1h").retention("24h");
        let row = (Arc::new(Periodic::new(spec, task).expect("an entry")), None, None);
        let listed_entry = entry(&row, Utc::now());
        let expected = ["Queue(\"lo\\\"w\")", "MaxRetry(3)", "Timeout(1m30s)", "Unique(1h0m0s)", "Retention(24h0m0s)"];
        assert_eq!(listed_entry.enqueue_options, expected);
        assert_eq!((listed_entry.spec.as_str(), listed_entry.task_payload.as_ref()), ("@daily", b"{}".as_ref()));
        assert_eq!(listed_entry.prev_enqueue_time, Some(Timestamp::NEVER));

        let spec = CronSpec::parse_in("0 9 * * *", chrono_tz::Tz::Europe__Berlin).expect("a spec");
        let at = DateTime::from_timestamp(2_000_000_000, 0).expect("a time");
        let task = RawTask::new("report", "").deadline(at);
        let row = (Arc::new(Periodic::new(spec, task).expect("an entry")), Some(at), Some(at));
        let listed_entry = entry(&row, Utc::now());
        assert_eq!(listed_entry.enqueue_options, ["Deadline(Wed May 18 03:33:20 UTC 2033)"]);
        assert_eq!(listed_entry.spec, "TZ=Europe/Berlin 0 9 * * *");
        assert_eq!(listed_entry.next_enqueue_time, Some(at.into()));
    }
}
