//! Turns the caller's task into the one to store: a function of task, moment and limit, but for a random id and the trace context of
//! the caller. Schedulers bind a task twice and compare, so nothing else may differ.

use std::time::Duration;

use chrono::{DateTime, Utc};
use md5::{Digest, Md5};

use crate::{
    broker::{NewTask, Replaces, UniqueLock, When, due_ms},
    clock::later,
    job::{EnqueueError, JobOptions, Prepared, PreparedTask, Until},
    propagation,
    task::{Extra, Header, QueueName, TaskIds, TaskMessage, UniqueUntil},
};

/// Returns the task to store.
pub(crate) fn new_task(task: PreparedTask, now: DateTime<Utc>, limit: usize) -> Result<NewTask, EnqueueError> {
    one_of_many(task, now, limit, &mut TaskIds::default())
}

/// [`new_task`] for one of the tasks of a call, whose ids come from `ids`.
pub(crate) fn one_of_many(
    task: PreparedTask,
    now: DateTime<Utc>,
    limit: usize,
    ids: &mut TaskIds,
) -> Result<NewTask, EnqueueError> {
    let mut task = task.into_result()?;
    check_headers(&task)?;
    propagation::inject(&mut task.headers);
    let size = task.payload.as_ref().map_or(0, bytes::Bytes::len);
    if size > limit {
        return Err(EnqueueError::TooLarge { size, limit });
    }
    crate::task::check_type_name(&task.name)?;
    let queue = match task.queue {
        Some(ref queue) => queue.clone(),
        None => QueueName::new(JobOptions::DEFAULT_QUEUE)?,
    };
    let id_is_ours = task.id.is_none();
    let id = task.id.clone().unwrap_or_else(|| ids.next_id());
    let replaces = replaces(&task)?;
    let when = task.when.unwrap_or_else(|| task.debounce.map_or(When::Now, When::In));
    let unique =
        task.unique.or(task.debounce.map(|_| DEBOUNCED)).map(|ttl| UniqueLock { key: unique_key(&queue, &task), ttl });
    check_unique(&task)?;
    check_awaited(&task)?;
    let deadline = task.deadline.map_or(0, |end| ceil_seconds(instant(end, now)).max(1));
    let expires = task.expires.map(|end| instant(end, now));
    check_ends([("expires", expires), ("deadline", task.deadline.map(|end| instant(end, now)))], when, now)?;
    let timeout = match (task.timeout, deadline) {
        (Some(timeout), _) => timeout,
        (None, 0) => JobOptions::DEFAULT_TIMEOUT,
        (None, _) => Duration::ZERO,
    };
    let retention = retention(&task);
    let seconds = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    Ok(NewTask {
        message: TaskMessage {
            r#type: task.name,
            payload: task.payload.unwrap_or_default(),
            id: id.as_str().to_owned(),
            queue: queue.as_str().to_owned(),
            retry: task.retry,
            timeout: seconds(timeout),
            deadline,
            unique_key: unique.as_ref().map(|lock| lock.key.clone()).unwrap_or_default(),
            retention: seconds(retention),
            group_key: task.group.as_ref().map(|group| group.as_str().to_owned()).unwrap_or_default(),
            headers: task.headers.into_iter().map(|(key, value)| Header::new(key, value)).collect(),
            ..TaskMessage::default()
        },
        queue,
        id,
        id_is_ours,
        when,
        unique,
        replaces,
        group: task.group,
        extra: Extra {
            max_crashes: task.max_crashes,
            expires_ms: expires.map(due_ms),
            unique_until: task.unique_until.into(),
            unique_extend: task.unique_extend,
            awaited: task.awaited,
            ..Extra::default()
        },
    })
}

/// Most bytes of all headers of a task but for the trace context that is added: they are sent with each outcome, and every program that
/// lists tasks reads them.
const MOST_HEADERS: usize = 64 << 10;

fn check_headers(task: &Prepared) -> Result<(), EnqueueError> {
    let bytes: usize = task.headers.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes <= MOST_HEADERS {
        return Ok(());
    }
    let reason = format!(
        "the headers of a task have at most 64 KiB together, these {bytes} bytes; put what is large into the arguments"
    );
    Err(EnqueueError::Option { option: "header", reason })
}

/// How long the lock of a debounced task lasts whose `unique` is not given.
const DEBOUNCED: Duration = Duration::from_secs(86_400);

/// Returns whether the task takes the place of an equal one, and within which time.
fn replaces(task: &Prepared) -> Result<Option<Replaces>, EnqueueError> {
    let wrong = |option, reason: &str| Err(EnqueueError::Option { option, reason: reason.to_owned() });
    let option = if task.debounce.is_some() { "debounce" } else { "or_replace" };
    match (task.debounce, task.debounce_max) {
        (None, Some(_)) => return wrong("debounce_max", "it needs `debounce`: say how long it has to be quiet"),
        (Some(debounce), Some(most)) if most < debounce => {
            return wrong("debounce_max", "it must be at least as long as `debounce`");
        }
        (None, None) if !task.or_replace => return Ok(None),
        _ => {}
    }
    if task.group.is_some() {
        return wrong(option, "a task in a group waits for others and not for its time; leave one out");
    }
    if task.id.is_some() {
        return wrong(option, "a task that takes new arguments keeps its id; leave `task_id` out");
    }
    if task.unique_until == UniqueUntil::Start {
        return wrong(
            option,
            "an attempt without a lock is not found, and could run again with its older arguments; leave `unique_until` out",
        );
    }
    if task.unique.is_none() && task.debounce.is_none() {
        return wrong(option, "it needs `unique`: say for how long the task keeps an equal one out");
    }
    Ok(Some(Replaces { within: task.debounce_max }))
}

/// Checks that the options of a lock come with a lock, and that a lock which the start frees is not extended.
fn check_unique(task: &Prepared) -> Result<(), EnqueueError> {
    let wrong = |option, reason: &str| Err(EnqueueError::Option { option, reason: reason.to_owned() });
    match (task.unique.is_some() || task.debounce.is_some(), task.unique_until, task.unique_extend) {
        (false, UniqueUntil::Success | UniqueUntil::Start, _) => {
            wrong("unique_until", "it needs `unique`: say for how long the task keeps an equal one out")
        }
        (false, _, true) => {
            wrong("unique_extend", "it needs `unique`: say for how long the task keeps an equal one out")
        }
        (_, UniqueUntil::Start, true) => {
            wrong("unique_extend", "the lock is freed when the task starts; leave one out")
        }
        _ => Ok(()),
    }
}

/// Checks that an awaited task is in no group, where it would have no end of its own.
fn check_awaited(task: &Prepared) -> Result<(), EnqueueError> {
    if task.awaited && task.group.is_some() {
        let reason = "a task in a group becomes part of another and has no end of its own; leave one out".to_owned();
        return Err(EnqueueError::Option { option: "awaited", reason });
    }
    Ok(())
}

/// Returns how long the task is kept after success. An awaited task is kept long enough to be read.
fn retention(task: &Prepared) -> Duration {
    let declared = task.retention.unwrap_or_default();
    if task.awaited { declared.max(Duration::from_secs(Extra::AWAITED_RETENTION)) } else { declared }
}

/// Checks that a task which is due later may still run then.
fn check_ends(
    ends: [(&'static str, Option<DateTime<Utc>>); 2],
    when: When,
    now: DateTime<Utc>,
) -> Result<(), EnqueueError> {
    let due = match when {
        When::Now => return Ok(()),
        When::In(delay) => later(now, delay),
        When::At(at) => at,
    };
    match ends.into_iter().find(|(_, end)| due > now && end.is_some_and(|end| end <= due)) {
        Some((option, _)) => {
            let reason = format!(
                "it would have passed before the task is due; let `{option}` end later, or run the task sooner"
            );
            Err(EnqueueError::Option { option, reason })
        }
        None => Ok(()),
    }
}

/// Returns the key of the lock of a task that is enqueued.
fn unique_key(queue: &QueueName, task: &Prepared) -> String {
    lock_key(queue, &task.name, task.unique_bytes.as_ref().or(task.payload.as_ref()).map(AsRef::as_ref))
}

/// Returns the key of the lock of tasks that these bytes make equal. The key of a payload that was never given ends with the
/// last colon.
pub(crate) fn lock_key(queue: &QueueName, name: &str, bytes: Option<&[u8]>) -> String {
    use std::fmt::Write as _;

    let mut key = format!("asynq:{{{queue}}}:unique:{name}:");
    if let Some(bytes) = bytes {
        for byte in Md5::digest(bytes) {
            let _ = write!(key, "{byte:02x}");
        }
    }
    key
}

fn instant(end: Until, now: DateTime<Utc>) -> DateTime<Utc> {
    match end {
        Until::At(at) => at,
        Until::In(span) => later(now, span),
    }
}

fn ceil_seconds(at: DateTime<Utc>) -> i64 {
    at.timestamp() + i64::from(at.timestamp_subsec_nanos() > 0)
}

#[cfg(test)]
mod tests;
