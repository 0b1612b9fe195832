//! From what the caller said to what is stored: a pure function of task, moment and limit (PROTOCOL §4.2).

use std::time::Duration;

use chrono::{DateTime, Utc};
use md5::{Digest, Md5};

use crate::{
    broker::{NewTask, UniqueLock},
    job::{Deadline, EnqueueError, JobOptions, Prepared, PreparedTask},
    task::{Extra, Header, QueueName, TaskId, TaskMessage},
};

/// The task to store.
pub(super) fn new_task(task: PreparedTask, now: DateTime<Utc>, limit: usize) -> Result<NewTask, EnqueueError> {
    let task = task.into_result()?;
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
    let id = task.id.clone().unwrap_or_else(TaskId::random);
    let unique = task.unique.map(|ttl| UniqueLock { key: unique_key(&queue, &task), ttl });
    let deadline = match task.deadline {
        None => 0,
        Some(Deadline::At(at)) => ceil_seconds(at).max(1),
        Some(Deadline::In(span)) => ceil_seconds(add(now, span)).max(1),
    };
    let timeout = match (task.timeout, deadline) {
        (Some(timeout), _) => timeout,
        (None, 0) => JobOptions::DEFAULT_TIMEOUT,
        (None, _) => Duration::ZERO,
    };
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
            retention: seconds(task.retention.unwrap_or_default()),
            headers: task.headers.into_iter().map(|(key, value)| Header::new(key, value)).collect(),
            ..TaskMessage::default()
        },
        queue,
        id,
        id_is_ours,
        when: task.when,
        unique,
        group: None,
        extra: Extra { max_crashes: task.max_crashes, ..Extra::default() },
    })
}

/// The key of the lock of a task that is enqueued.
fn unique_key(queue: &QueueName, task: &Prepared) -> String {
    lock_key(queue, &task.name, task.unique_bytes.as_ref().or(task.payload.as_ref()).map(AsRef::as_ref))
}

/// The key of the lock of tasks that these bytes make equal (PROTOCOL §2.2): nothing follows the last colon for a
/// payload that was never given.
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

fn ceil_seconds(at: DateTime<Utc>) -> i64 {
    at.timestamp() + i64::from(at.timestamp_subsec_nanos() > 0)
}

fn add(at: DateTime<Utc>, span: Duration) -> DateTime<Utc> {
    chrono::TimeDelta::from_std(span)
        .ok()
        .and_then(|span| at.checked_add_signed(span))
        .unwrap_or(DateTime::<Utc>::MAX_UTC)
}

#[cfg(test)]
mod tests;
