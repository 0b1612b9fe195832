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

/// Returns the task to store. An id that was not given comes from `ids`, which are those of one call.
pub(super) fn new_task(
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
    check_together(&task)?;
    let replaces = replaces(&task).then_some(Replaces { within: task.debounce_max });
    let when = task.when.unwrap_or_else(|| task.debounce.map_or(When::Now, When::In));
    let unique = task.unique.or(task.debounce.map(|_| DEBOUNCED)).map(|ttl| {
        let bytes = task.unique_bytes.as_ref().or(task.payload.as_ref());
        UniqueLock { key: lock_key(&queue, &task.name, bytes.map(AsRef::as_ref)), ttl }
    });
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

/// Returns whether the task takes the place of an equal one.
fn replaces(task: &Prepared) -> bool {
    task.or_replace || task.debounce.is_some()
}

/// Checks that the options of the task go together; of several mistakes the first counts.
fn check_together(task: &Prepared) -> Result<(), EnqueueError> {
    let replacing = if task.debounce.is_some() { "debounce" } else { "or_replace" };
    let replaces = replaces(task);
    let is_grouped = task.group.is_some();
    let has_lock = task.unique.is_some() || task.debounce.is_some();
    let is_freed_by_start = task.unique_until == UniqueUntil::Start;
    let needs_unique = "it needs `unique`: say for how long the task keeps an equal one out";
    let is_shorter = task.debounce_max.zip(task.debounce).is_some_and(|(most, quiet)| most < quiet);
    let mistakes = [
        (
            task.debounce_max.is_some() && task.debounce.is_none(),
            "debounce_max",
            "it needs `debounce`: say how long it has to be quiet",
        ),
        (is_shorter, "debounce_max", "it must be at least as long as `debounce`"),
        (replaces && is_grouped, replacing, "a task in a group waits for others and not for its time; leave one out"),
        (replaces && task.id.is_some(), replacing, "a task that takes new arguments keeps its id; leave `task_id` out"),
        (
            replaces && is_freed_by_start,
            replacing,
            "an attempt without a lock is not found, and could run again with its older arguments; leave `unique_until` out",
        ),
        (replaces && !has_lock, replacing, needs_unique),
        (!has_lock && task.unique_until != UniqueUntil::End, "unique_until", needs_unique),
        (!has_lock && task.unique_extend, "unique_extend", needs_unique),
        (
            is_freed_by_start && task.unique_extend,
            "unique_extend",
            "the lock is freed when the task starts; leave one out",
        ),
        // Such a task would have no end of its own.
        (
            task.awaited && is_grouped,
            "awaited",
            "a task in a group becomes part of another and has no end of its own; leave one out",
        ),
    ];
    match mistakes.into_iter().find(|(is_made, ..)| *is_made) {
        Some((_, option, reason)) => Err(EnqueueError::Option { option, reason: reason.to_owned() }),
        None => Ok(()),
    }
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

/// Returns the key of the lock of tasks that these bytes make equal. The key of a payload that was never given ends with the
/// last colon.
pub(crate) fn lock_key(queue: &QueueName, name: &str, bytes: Option<&[u8]>) -> String {
    use std::fmt::Write as _;

    let mut key = format!("asynq:{{{queue}}}:unique:{name}:");
    if let Some(bytes) = bytes {
        let _ = write!(key, "{:032x}", u128::from_be_bytes(Md5::digest(bytes).into()));
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
