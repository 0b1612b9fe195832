//! Entries as asynq's tools see them (PROTOCOL §9.1, §9.4).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use asynq_runtime::{
    broker::{Broker, NewTask, When},
    task::{SchedulerEntry, Timestamp},
};
use chrono::{DateTime, Utc};

use super::plan::Shown;
use crate::{Periodic, Tick, registry::diff};

/// Lists the entries; says what changed since somebody listed them before, if `tells`. Best effort.
pub(super) async fn show(broker: Arc<dyn Broker>, scheduler: String, rows: Vec<Shown>, ttl: Duration, tells: bool) {
    if tells {
        match broker.scheduler_entries().await {
            Ok(before) => tell(&before, &rows),
            Err(error) => tracing::debug!("cannot see what was scheduled before: {error}"),
        }
    }
    let now = broker.now();
    let entries: Vec<_> = rows.into_iter().map(|row| entry(&row, now)).collect();
    let ttl = Duration::from_secs(ttl.as_secs().max(1) + u64::from(ttl.subsec_nanos() > 0));
    if let Err(error) = broker.show_entries(&scheduler, &entries, ttl).await {
        tracing::debug!("the entries are not listed for asynq's tools: {error}");
    }
}

fn tell(before: &[SchedulerEntry], rows: &[Shown]) {
    let ours = |entry: &&SchedulerEntry| is_ours(&entry.id);
    let before: BTreeMap<_, _> = before
        .iter()
        .filter(ours)
        .map(|entry| (entry.id.clone(), (entry.task_type.clone(), entry.spec.clone())))
        .collect();
    let now: BTreeMap<_, _> = rows.iter().map(|(entry, ..)| key(entry)).collect();
    for line in diff::lines(&before, &now) {
        tracing::info!("schedule: {line}");
    }
}

/// An entry as the log compares it.
pub(super) fn key(entry: &Periodic) -> (String, (String, String)) {
    (entry.id().to_string(), (entry.job().to_owned(), entry.shown_spec()))
}

/// Whether a scheduler of ours made the id: Go's are random (UUID version 4).
fn is_ours(id: &str) -> bool {
    uuid::Uuid::parse_str(id).is_ok_and(|id| id.get_version_num() == 5)
}

pub(crate) fn entry((periodic, previous, next): &Shown, now: DateTime<Utc>) -> SchedulerEntry {
    let bound = periodic.bind(Tick::new(now), now).ok();
    let time = |time: &Option<DateTime<Utc>>| Some(time.map_or(Timestamp::NEVER, Into::into));
    SchedulerEntry {
        id: periodic.id().to_string(),
        spec: periodic.shown_spec(),
        task_type: periodic.job().to_owned(),
        task_payload: bound.as_ref().map(|task| task.message.payload.clone()).unwrap_or_default(),
        enqueue_options: bound.as_ref().map(options).unwrap_or_default(),
        next_enqueue_time: time(next),
        prev_enqueue_time: time(previous),
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

/// Go's `%q` of what may be the name of a queue or a group.
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
        let shown = entry(&row, Utc::now());
        let expected = ["Queue(\"lo\\\"w\")", "MaxRetry(3)", "Timeout(1m30s)", "Unique(1h0m0s)", "Retention(24h0m0s)"];
        assert_eq!(shown.enqueue_options, expected);
        assert_eq!((shown.spec.as_str(), shown.task_payload.as_ref()), ("@daily", b"{}".as_ref()));
        assert_eq!(shown.prev_enqueue_time, Some(Timestamp::NEVER));

        let spec = CronSpec::parse_in("0 9 * * *", chrono_tz::Tz::Europe__Berlin).expect("a spec");
        let at = DateTime::from_timestamp(2_000_000_000, 0).expect("a time");
        let task = RawTask::new("report", "").deadline(at);
        let row = (Arc::new(Periodic::new(spec, task).expect("an entry")), Some(at), Some(at));
        let shown = entry(&row, Utc::now());
        assert_eq!(shown.enqueue_options, ["Deadline(Wed May 18 03:33:20 UTC 2033)"]);
        assert_eq!(shown.spec, "TZ=Europe/Berlin 0 9 * * *");
        assert_eq!(shown.next_enqueue_time, Some(at.into()));
    }

    #[test]
    fn ids_of_go_are_not_ours() {
        assert!(is_ours("b9410bfb-e0d3-5ede-9abb-9f7d6e314a6a"));
        assert!(!is_ours(&uuid::Uuid::new_v4().to_string()));
        assert!(!is_ours("x"));
    }
}
