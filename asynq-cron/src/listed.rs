//! Runs an entry that is only known from the list of entries, of another program of this crate or of Go.

use asynq_runtime::{
    Client, PreparedTask, RawTask, TaskId,
    broker::{EntryId, NewTask, UniqueLock, When},
    task::{Extra, GroupName, Header, QueueName, SchedulerEntry, TaskMessage},
};
use chrono::{DateTime, NaiveDateTime, Utc};
use std::time::Duration;

use crate::{CronSpec, PeriodicError, Schedule, SpecError, Tick};

impl Schedule {
    /// Returns the queue of the tasks of a listed entry.
    pub fn queue_of(entry: &SchedulerEntry) -> QueueName {
        let named = options(entry).filter(|(name, _)| *name == "Queue").find_map(|(_, argument)| unquoted(argument));
        QueueName::from_wire(named.as_deref().unwrap_or("default"))
    }

    /// Returns the schedule of a listed entry with the times of its scheduler. Of an entry of Go's scheduler the times may be others: it
    /// may run in another time zone, and counts `@every` from its start.
    ///
    /// # Errors
    ///
    /// The text of the schedule cannot be read.
    pub fn spec_of(entry: &SchedulerEntry) -> Result<CronSpec, SpecError> {
        let spec = match CronSpec::parse(&entry.spec) {
            Ok(spec) if !entry.compat => spec,
            // The default rules refuse some texts of Go's.
            _ => CronSpec::parse_compat(&entry.spec)?,
        };
        Ok(spec.aligned())
    }

    /// Enqueues the task of a listed entry once, now, beside its schedule and whatever its overlap policy; returns the task's id.
    /// The task equals that of a tick of the entry. The list of Go's scheduler has only those options that were given to its
    /// `Register`, so a task of its entry has no others: options that its program gave to `NewTask` (a queue, too) are not listed.
    /// As with [`run_now`](Self::run_now), the layers and the payload limit of the client do not apply.
    ///
    /// # Errors
    ///
    /// An option of the entry cannot be read, the task was refused, or the broker failed.
    pub async fn run_listed(&self, entry: &SchedulerEntry) -> Result<TaskId, PeriodicError> {
        let now = self.client.broker().now();
        let task = match exact_task_of(entry, now) {
            Some(task) => task,
            // As with an entry of this crate, neither the layers nor the limit of the client see the task.
            None => PreparedTask::from(task_of(entry, Tick::new(now))?).bind(now, Client::MAX_PAYLOAD_LIMIT)?,
        };
        self.enqueue_beside(&EntryId::from_wire(&entry.id), task, now).await
    }
}

/// The task that one tick of a listed entry of this crate enqueues at `now`, with a new id; `None` if the list does not contain
/// it.
fn exact_task_of(entry: &SchedulerEntry, now: DateTime<Utc>) -> Option<NewTask> {
    let listed = entry.task.as_ref()?;
    let mut message = TaskMessage::decode(listed.message.clone()).ok()?;
    let mut extra = Extra::from_bytes(&listed.extra);
    let since = now.timestamp_millis().saturating_sub(listed.bound_ms);
    if listed.deadline_moves {
        message.deadline = message.deadline.saturating_add(since / 1_000);
    }
    if listed.expiry_moves {
        extra.expires_ms = extra.expires_ms.map(|end| end.saturating_add(since));
    }
    let id = TaskId::random();
    message.id = id.to_string();
    message.payload = entry.task_payload.clone();
    message.headers.extend(Tick::new(now).headers().map(|(key, value)| Header::new(key, value)));
    let lock = (listed.lock_seconds > 0 && !message.unique_key.is_empty())
        .then(|| UniqueLock { key: message.unique_key.clone(), ttl: Duration::from_secs(listed.lock_seconds) });
    let when = match (listed.delay_ms, DateTime::from_timestamp_millis(listed.at_ms)) {
        (1.., _) => When::In(Duration::from_millis(listed.delay_ms.unsigned_abs())),
        (_, Some(at)) if listed.at_ms > 0 => When::At(at),
        _ => When::Now,
    };
    Some(NewTask {
        queue: QueueName::from_wire(&message.queue),
        id,
        id_is_ours: true,
        when,
        group: (!message.group_key.is_empty()).then(|| GroupName::from_wire(&message.group_key)),
        unique: lock,
        replaces: None,
        extra,
        message,
    })
}

/// The task that one tick of a listed entry of Go's scheduler enqueues.
fn task_of(entry: &SchedulerEntry, tick: Tick) -> Result<RawTask, PeriodicError> {
    let mut task = if entry.task_payload.is_empty() {
        RawTask::without_payload(&entry.task_type)
    } else {
        RawTask::new(&entry.task_type, entry.task_payload.clone())
    };
    for (name, argument) in options(entry) {
        let unreadable = || PeriodicError::Option { entry: entry.id.clone(), option: format!("{name}({argument})") };
        let text = || unquoted(argument).ok_or_else(unreadable);
        let span = || parse_span(argument).ok_or_else(unreadable);
        task = match name {
            "Queue" => task.queue(text()?),
            "Group" => task.group(text()?),
            "MaxRetry" => task.retry(argument.parse::<u32>().map_err(|_| unreadable())?),
            // A time that has passed when the task is enqueued.
            "ProcessIn" if argument.strip_prefix('-').and_then(parse_span).is_some() => task,
            // Go writes zero for no limit.
            "Timeout" | "Unique" | "Retention" | "ProcessIn" if span()?.is_zero() => task,
            "Timeout" => task.timeout(span()?),
            "Unique" => task.unique(span()?),
            "Retention" => task.retention(span()?),
            "ProcessIn" => task.process_in(span()?),
            "Deadline" => task.deadline(parse_deadline(argument).ok_or_else(unreadable)?),
            // `ProcessAt` does not apply, because the caller asked for now; an id can be used only once; and Go's reader drops
            // unknown options, too.
            _ => task,
        };
    }
    Ok(tick.headers().fold(task, |task, (key, value)| task.header(key, value)))
}

/// The names and arguments of an entry's options.
fn options(entry: &SchedulerEntry) -> impl Iterator<Item = (&str, &str)> {
    entry.enqueue_options.iter().filter_map(|option| option.strip_suffix(')')?.split_once('('))
}

/// The text that Go's `%q` has quoted.
fn unquoted(quoted: &str) -> Option<String> {
    let mut chars = quoted.strip_prefix('"')?.strip_suffix('"')?.chars();
    let mut text = String::new();
    while let Some(c) = chars.next() {
        text.push(match c {
            '\\' => match chars.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'x' => take_hex(&mut chars, 2)?,
                'u' => take_hex(&mut chars, 4)?,
                'U' => take_hex(&mut chars, 8)?,
                c @ ('"' | '\\') => c,
                _ => return None,
            },
            c => c,
        });
    }
    Some(text)
}

fn take_hex(chars: &mut std::str::Chars<'_>, digits: usize) -> Option<char> {
    let number: String = chars.by_ref().take(digits).collect();
    u32::from_str_radix(&number, 16).ok().filter(|_| number.len() == digits).and_then(char::from_u32)
}

/// Reads a span as Go's `Duration.String` writes it, such as `1h0m1.5s`; `None` for a fraction of a smaller unit.
fn parse_span(text: &str) -> Option<Duration> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (format!("{whole}s"), format!("0.{}", fraction.strip_suffix('s')?)),
        None => (text.to_owned(), "0".to_owned()),
    };
    let fraction = Duration::try_from_secs_f64(fraction.parse().ok()?).ok()?;
    asynq_grammar::duration::parse(&whole).ok()?.checked_add(fraction)
}

/// Reads `Wed May 18 03:33:20 UTC 2033`; `None` for another zone, because its abbreviation is ambiguous.
fn parse_deadline(text: &str) -> Option<DateTime<Utc>> {
    let at = NaiveDateTime::parse_from_str(text, "%a %b %e %H:%M:%S UTC %Y").ok()?;
    Some(at.and_utc())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Periodic, scheduler::listing};

    fn listed(options: &[&str]) -> SchedulerEntry {
        SchedulerEntry {
            id: "e1".into(),
            task_type: "report".into(),
            task_payload: "{}".into(),
            enqueue_options: options.iter().map(ToString::to_string).collect(),
            ..SchedulerEntry::default()
        }
    }

    #[test]
    fn a_listed_entry_runs_the_task_that_it_lists() {
        let at = DateTime::from_timestamp(2_000_000_000, 0).expect("a time");
        let raw = RawTask::new("report", "{}").queue("lo\"w)").retry(3).timeout("90s").unique("1h").retention("24h");
        let raw = raw.group("the\\group").deadline(at + chrono::TimeDelta::hours(1)).process_in("10m");
        let spec = CronSpec::parse("@daily").expect("a spec");
        let entry = Periodic::new(spec, raw).expect("an entry");
        let listed = listing::entry(&(entry.clone().into(), None, None), at - chrono::TimeDelta::hours(1));
        assert_eq!(Schedule::queue_of(&listed).as_str(), "lo\"w)");

        let tick = Tick::new(at);
        let planned = entry.bind(tick, at).expect("its own task");
        let made = Periodic::new(CronSpec::parse("@daily").expect("a spec"), task_of(&listed, tick).expect("a task"));
        let made = made.expect("an entry").bind(tick, at).expect("the listed task");
        let plain = |task: asynq_runtime::broker::NewTask| {
            let mut message = task.message;
            (message.id, message.headers) = (String::new(), Vec::new());
            (message, task.when, task.unique.map(|lock| lock.ttl))
        };
        assert_eq!(plain(made), plain(planned));
    }

    #[test]
    fn a_listed_entry_has_the_schedule_of_its_scheduler() {
        let tokyo = chrono_tz::Tz::Asia__Tokyo;
        for spec in [
            CronSpec::parse("30 2 * * *"),
            CronSpec::parse("*/20 * * * * *"),
            CronSpec::parse_in("0 9 * * *", tokyo),
            CronSpec::parse_compat("30 2 * * *"),
            CronSpec::parse_compat_in("1,,2 * * * *", tokyo),
            CronSpec::parse("@every 90s"),
            CronSpec::parse_compat("@every 90s"),
            CronSpec::parse_compat("@every 90.5s"),
        ] {
            let entry = Periodic::new(spec.expect("a spec"), RawTask::new("report", "{}")).expect("an entry");
            let listed = listing::entry(&(entry.clone().into(), None, None), Utc::now());
            assert_eq!(Schedule::spec_of(&listed).as_ref(), Ok(entry.spec()));
        }
        // Go's scheduler does not say its rules.
        let gos = |spec: &str| SchedulerEntry { spec: spec.into(), ..SchedulerEntry::default() };
        assert_eq!(Schedule::spec_of(&gos("1,,2 * * * *")), CronSpec::parse_compat("1,,2 * * * *"));
        assert!(Schedule::spec_of(&gos("nonsense")).is_err());
    }

    #[test]
    fn an_entry_that_runs_now_enqueues_the_same_task_as_a_tick() {
        let at = DateTime::from_timestamp(2_000_000_000, 0).expect("a time");
        let listed_at = at - chrono::TimeDelta::seconds(5);
        let raw =
            || RawTask::new("report", "{}").queue("low").retry(3).unique("1h").max_crashes(7).header("who", "ann");
        for raw in [
            raw().expires("10m").deadline("1h"),
            raw().expires(at + chrono::TimeDelta::days(1)).deadline(at + chrono::TimeDelta::days(2)),
            raw().process_in("10m").unique_until(asynq_runtime::task::UniqueUntil::Start),
            raw().group("g"),
            RawTask::new("plain", ""),
        ] {
            let entry = Periodic::new(CronSpec::parse("@daily").expect("a spec"), raw).expect("an entry");
            let listed = listing::entry(&(entry.clone().into(), None, None), listed_at);
            let plain = |mut task: NewTask| {
                (task.message.id, task.id) = (String::new(), TaskId::from_wire(""));
                format!("{task:?} {:?}", task.message.payload)
            };
            let made = exact_task_of(&listed, at).expect("the listing has the task");
            assert!(!made.id.as_str().is_empty() && made.message.id == made.id.as_str());
            assert_eq!(plain(made), plain(entry.bind(Tick::new(at), at).expect("its own task")));
        }
    }

    #[test]
    fn options_of_go_are_read_as_go_reads_them() {
        assert_eq!(Schedule::queue_of(&listed(&[])).as_str(), "default");
        assert_eq!(Schedule::queue_of(&listed(&["MaxRetry(1)", "Queue(\"\\x1b\\u00e9\\n\")"])).as_str(), "\u{1b}é\n");
        for fine in [
            "TaskID(\"x\")",
            "ProcessAt(Wed May 18 03:33:20 UTC 2033)",
            "Header([\"k\",\"v\"])",
            "rubbish",
            "Timeout(0s)",
            "ProcessIn(-1s)",
            "ProcessIn(-1h0m0.5s)",
        ] {
            assert!(task_of(&listed(&[fine]), Tick::new(Utc::now())).is_ok(), "{fine}");
        }
        for wrong in [
            "MaxRetry(many)",
            "Queue(low)",
            "Queue(\"\\q\")",
            "Timeout(1.5)",
            "Timeout(1.5h)",
            "Timeout(-1s)",
            "Unique(1.5ms)",
            "ProcessIn(-)",
            "Deadline(Wed May 18 03:33:20 CET 2033)",
        ] {
            let error = task_of(&listed(&[wrong]), Tick::new(Utc::now())).expect_err(wrong);
            assert!(error.to_string().contains(wrong), "{error}");
        }
        for (text, ms) in [("0s", 0), ("1.5s", 1_500), ("0.25s", 250), ("1h0m0.5s", 3_600_500), ("2ms", 2)] {
            assert_eq!(parse_span(text), Some(Duration::from_millis(ms)), "{text}");
        }
    }
}
