//! Entries as asynq's tools see them (PROTOCOL §9.1, §9.4).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use asynq_runtime::{
    broker::{Broker, NewTask, When},
    task::{SchedulerEntry, Timestamp},
};
use chrono::{DateTime, Utc};

use super::plan::Shown;
use crate::{Periodic, Tick, registry::diff};

/// How long a program's entries are known, to be compared with those of its next version.
const KEPT: Duration = Duration::from_secs(90 * 24 * 3600);

/// Lists the entries; best effort.
pub(super) async fn show(broker: Arc<dyn Broker>, scheduler: String, rows: Vec<Shown>, ttl: Duration) {
    let now = broker.now();
    let entries: Vec<_> = rows.into_iter().map(|row| entry(&row, now)).collect();
    let ttl = Duration::from_secs(ttl.as_secs().max(1) + u64::from(ttl.subsec_nanos() > 0));
    if let Err(error) = broker.show_entries(&scheduler, &entries, ttl).await {
        tracing::debug!("the entries are not listed for asynq's tools: {error}");
    }
}

/// Says what of its entries a program has changed since it was compared last; `false` if that is not known.
pub(super) async fn compare(broker: Arc<dyn Broker>, program: String, entries: Vec<Arc<Periodic>>) -> bool {
    let now = broker.now();
    let mut entries: Vec<_> = entries.into_iter().map(|periodic| entry(&(periodic, None, None), now)).collect();
    entries.sort_by(|a, b| a.id.cmp(&b.id));
    match broker.swap_entries(&program, &entries, KEPT).await {
        Ok(before) => {
            for line in diff::lines(&keyed(before), &keyed(entries)) {
                tracing::info!(%program, "schedule: {line}");
            }
            true
        }
        Err(error) => {
            tracing::debug!("cannot see what was scheduled before: {error}");
            false
        }
    }
}

/// Entries as the log compares them.
fn keyed(entries: Vec<SchedulerEntry>) -> BTreeMap<String, (String, String)> {
    entries.into_iter().map(|entry| (entry.id, (entry.task_type, entry.spec))).collect()
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
}
