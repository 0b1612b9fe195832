//! Periodic entries: what schedulers show, what the broker keeps of them, and when they are due.

use std::collections::BTreeMap;

use asynq_cron::{CronSpec, EntryId};
use asynq_runtime::{
    RawTask,
    broker::{EntryState, Page},
    task::{QueueName, SchedulerEnqueueEvent, SchedulerEntry, Timestamp},
};
use chrono::{DateTime, Utc};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::{failure::Failure, look::payload, state::AppState};

/// Entries that are asked for at the same time.
const AT_ONCE: usize = 16;
/// Most entries of one page.
pub(crate) const MOST: usize = 500;
/// Next runs of one entry that are told.
const NEXT: usize = 5;

/// One periodic entry.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Its id; a Go scheduler gives a new one at every start.
    pub(crate) id: String,
    /// The queue of its tasks.
    pub(crate) queue: String,
    /// The schedule as text, with its zone where it names one.
    pub(crate) spec: String,
    /// The schedule as a sentence, where it can be read.
    pub(crate) sentence: Option<String>,
    /// Type of its tasks.
    pub(crate) r#type: String,
    /// Their payload.
    pub(crate) payload: payload::Shown,
    /// Their options in Go's form: `MaxRetry(3)`.
    pub(crate) options: Vec<String>,
    /// When its last tick was.
    pub(crate) previous: Option<DateTime<Utc>>,
    /// Its next ticks, soonest first; none while it is paused.
    pub(crate) next: Vec<DateTime<Utc>>,
    /// What the broker keeps of it; `None` for an entry of a Go scheduler, which cannot be paused.
    pub(crate) kept: Option<EntryState>,
    /// As the scheduler shows it.
    pub(crate) shown: SchedulerEntry,
}

impl Entry {
    /// Whether it is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.paused)
    }
}

/// The entries of all schedulers that live, by type, each once: the first 500, and how many there are.
pub(crate) async fn all(app: &AppState) -> Result<(Vec<Entry>, usize), Failure> {
    let shown = shown(app).await?;
    let count = shown.len();
    let entries = stream::iter(shown.into_iter().take(MOST)).map(|entry| read(app, entry)).buffered(AT_ONCE);
    Ok((entries.try_collect().await?, count))
}

/// One entry.
///
/// # Errors
///
/// No scheduler that lives shows it, or the broker failed.
pub(crate) async fn one(app: &AppState, queue: &str, id: &str) -> Result<Entry, Failure> {
    let found = shown(app).await?.into_iter().find(|entry| entry.id == id && queue_of(entry) == queue);
    match found {
        Some(entry) => read(app, entry).await,
        None => Err(Failure::not_found(format!(
            "periodic entry `{id}` was not found in queue `{queue}`: no scheduler that runs now has it"
        ))),
    }
}

/// One page of what an entry enqueued, the newest first.
pub(crate) async fn history(app: &AppState, id: &str, page: Page) -> Result<Vec<SchedulerEnqueueEvent>, Failure> {
    Ok(app.schedule().history(&EntryId::from_wire(id), page).await?)
}

async fn shown(app: &AppState) -> Result<Vec<SchedulerEntry>, Failure> {
    // Replicas show the same entries: one of each is enough, the one with the latest news.
    let mut by_id: BTreeMap<(String, String), SchedulerEntry> = BTreeMap::new();
    for entry in app.schedule().entries().await? {
        let key = (entry.task_type.clone(), entry.id.clone());
        let time = |entry: &SchedulerEntry| entry.prev_enqueue_time.and_then(Timestamp::to_datetime);
        if by_id.get(&key).is_none_or(|known| time(known) < time(&entry)) {
            by_id.insert(key, entry);
        }
    }
    Ok(by_id.into_values().collect())
}

async fn read(app: &AppState, shown: SchedulerEntry) -> Result<Entry, Failure> {
    let queue = queue_of(&shown);
    let kept = app.schedule().entry(&QueueName::from_wire(&queue), &EntryId::from_wire(&shown.id)).await?;
    // What another program writes may be a schedule of robfig's.
    let spec = CronSpec::parse(&shown.spec).or_else(|_| CronSpec::parse_compat(&shown.spec)).ok();
    let now = app.client().broker().now();
    let next = match (&kept, &spec) {
        (Some(kept), _) if kept.paused => Vec::new(),
        (_, Some(spec)) => spec.upcoming_after(now, NEXT),
        _ => shown.next_enqueue_time.and_then(time).into_iter().collect(),
    };
    Ok(Entry {
        id: shown.id.clone(),
        spec: shown.spec.clone(),
        sentence: spec.map(|spec| spec.sentence()),
        r#type: shown.task_type.clone(),
        payload: payload::payload(app.registry(), &shown.task_type, &shown.task_payload),
        options: shown.enqueue_options.clone(),
        previous: shown.prev_enqueue_time.and_then(time),
        next,
        kept,
        queue,
        shown,
    })
}

/// A time that is one: Go writes the year 1 for none.
pub(crate) fn time(at: Timestamp) -> Option<DateTime<Utc>> {
    if at == Timestamp::NEVER { None } else { at.to_datetime() }
}

/// The queue that an entry's options name.
fn queue_of(entry: &SchedulerEntry) -> String {
    let named = entry.enqueue_options.iter().find_map(|option| value_of(option, "Queue"));
    named.map_or_else(|| "default".to_owned(), unquoted)
}

/// `x` of `Name(x)`.
fn value_of<'a>(option: &'a str, name: &str) -> Option<&'a str> {
    option.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')')
}

/// What Go's `%q` or our scheduler put in quotes.
fn unquoted(text: &str) -> String {
    let Some(inner) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else { return text.to_owned() };
    let (mut plain, mut chars) = (String::new(), inner.chars());
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        let Some(escape) = chars.next() else { break };
        let mut code = |digits: usize| {
            let text: String = chars.by_ref().take(digits).collect();
            u32::from_str_radix(&text, 16).ok().and_then(char::from_u32)
        };
        match escape {
            'n' => plain.push('\n'),
            'r' => plain.push('\r'),
            't' => plain.push('\t'),
            'x' => plain.extend(code(2)),
            'u' => plain.extend(code(4)),
            'U' => plain.extend(code(8)),
            other => plain.push(other),
        }
    }
    plain
}

/// The task that one tick of the entry enqueues, from what its scheduler shows.
///
/// # Errors
///
/// An option that we cannot read; the task would be another one without it.
pub(crate) fn task(entry: &SchedulerEntry) -> Result<RawTask, Failure> {
    let mut task = RawTask::new(entry.task_type.clone(), entry.task_payload.clone());
    for option in &entry.enqueue_options {
        let (name, value) = option.strip_suffix(')').and_then(|option| option.split_once('(')).unwrap_or((option, ""));
        task = match name {
            "Queue" => task.queue(unquoted(value)),
            "Group" => task.group(unquoted(value)),
            "MaxRetry" => match value.parse() {
                Ok(retry) => task.retry(retry),
                Err(_) => return Err(unreadable(option)),
            },
            "Timeout" => task.timeout(value),
            "Unique" => task.unique(value),
            "Retention" => task.retention(value),
            // Who runs it now does not want to wait, and each run has an id of its own.
            "ProcessIn" | "ProcessAt" | "TaskID" => task,
            _ => return Err(unreadable(option)),
        };
    }
    Ok(task)
}

fn unreadable(option: &str) -> Failure {
    Failure::new(
        crate::failure::Kind::Conflict,
        format!("the entry has the option `{option}`, which only its own program can give: run it there"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(options: &[&str]) -> SchedulerEntry {
        SchedulerEntry {
            task_type: "report".into(),
            enqueue_options: options.iter().map(|option| (*option).to_owned()).collect(),
            ..SchedulerEntry::default()
        }
    }

    #[test]
    fn the_queue_is_read_as_it_was_quoted() {
        for (options, queue) in [
            (&[][..], "default"),
            (&["MaxRetry(3)", "Queue(\"lo\\\"w\\\\\\n\\x1b\\u00e4\")"], "lo\"w\\\n\x1bä"),
            (&["Queue(\"a)(b\")"], "a)(b"),
        ] {
            assert_eq!(queue_of(&entry(options)), queue);
        }
    }

    #[test]
    fn a_task_has_the_options_that_are_shown_or_is_refused() {
        let options = ["Queue(\"low\")", "MaxRetry(3)", "Timeout(1m30s)", "Unique(1h0m0s)", "Retention(24h0m0s)"];
        let task = asynq_runtime::PreparedTask::from(super::task(&entry(&options)).expect("a task"));
        assert_eq!((task.name(), task.queue_name().map(QueueName::as_str)), ("report", Some("low")));
        let refused = super::task(&entry(&["Deadline(Wed May 18 03:33:20 UTC 2033)"])).expect_err("unknown");
        assert!(refused.message.contains("Deadline"), "{refused}");
    }
}
