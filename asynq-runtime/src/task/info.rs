//! The facts about one task that a program can read.

use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};

use super::{Ending, QueueName, TaskId, TaskMessage, TaskState, cut, length};

/// One task, as an enqueue or the inspector returns it.
///
/// ```
/// # use asynq_runtime::prelude::*;
/// # async fn look(client: &Client) -> Result<(), BoxError> {
/// let task = client.inspector().task("default", "welcome-ann").await?;
/// if task.state == TaskState::Retry {
///     println!("failed {} times: {:?}; next at {:?}", task.retried, task.last_error, task.next_process_at);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct TaskInfo {
    /// Id of the task.
    pub id: TaskId,
    /// Queue of the task.
    pub queue: QueueName,
    /// Name of the job that runs the task.
    pub r#type: String,
    /// Encoded arguments.
    pub payload: Bytes,
    /// State of the task.
    pub state: TaskState,
    /// How the task ended, if its state does not say it.
    pub ending: Ending,
    /// How often the task may be retried.
    pub max_retry: u32,
    /// How many retries the task has spent: one for each failure, but none for one that archived it.
    pub retried: u32,
    /// How often a worker died while it ran the task, since an attempt last ended by itself. Of a task in a group: how often a set that
    /// begins with the task came back at its deadline, mostly because the worker that aggregated the set died.
    pub crashes: u32,
    /// Text of the last error.
    pub last_error: Option<String>,
    /// When the task last failed.
    pub last_failed_at: Option<DateTime<Utc>>,
    /// Longest time one attempt may take.
    pub timeout: Option<Duration>,
    /// The time after which no attempt may run.
    pub deadline: Option<DateTime<Utc>>,
    /// The time after which no attempt begins; the task is then archived in place of its next one. The task that a server's
    /// `backoff` receives has none.
    pub expires: Option<DateTime<Utc>>,
    /// When the task is due: the exact time of a scheduled task or a retry, now for a pending task.
    pub next_process_at: Option<DateTime<Utc>>,
    /// When the lease of an active task ends unless its worker extends it.
    pub lease_until: Option<DateTime<Utc>>,
    /// How long the task is kept after success.
    pub retention: Option<Duration>,
    /// When the task succeeded.
    pub completed_at: Option<DateTime<Utc>>,
    /// When an archived task was archived, by its last failure or by a user; on Redis in whole seconds.
    pub archived_at: Option<DateTime<Utc>>,
    /// The encoded result of the job.
    pub result: Option<Bytes>,
    /// The progress that the running job reported last. `None` in every state but active, and while a Go worker runs the task.
    pub progress: Option<Progress>,
    /// Key of the unique lock, which another task may hold by now.
    pub unique_key: Option<String>,
    /// Group in which the task waits.
    pub group: Option<String>,
    /// User metadata.
    pub headers: Vec<(String, String)>,
    /// Whether the enqueue that returned this value gave its arguments and its time to an equal waiting task (`debounce`,
    /// `or_replace`) instead of storing a new one; `false` for a task that was read.
    pub replaced: bool,
}

/// The progress that a job reports.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// 0.0 to 1.0.
    pub fraction: f64,
    /// A short text for people, of at most 1 KiB.
    pub note: String,
}

impl Progress {
    /// Most bytes of a note, because every program that lists tasks reads it.
    const LONGEST_NOTE: usize = 1024;

    /// Returns a progress with `fraction` clamped to 0.0..=1.0; not-a-number counts as 0. A longer `note` is cut to 1 KiB.
    #[doc(hidden)]
    pub fn new(fraction: f64, note: impl Into<String>) -> Self {
        let fraction = if fraction.is_nan() { 0.0 } else { fraction.clamp(0.0, 1.0) };
        let mut note = note.into();
        let length = cut(&note, Self::LONGEST_NOTE).len();
        note.truncate(length);
        Self { fraction, note }
    }
}

impl TaskInfo {
    /// Returns the value of the first header named `key`.
    pub fn header(&self, key: &str) -> Option<&str> {
        self.headers.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns whether the task is active although its lease had ended by `now`: its worker died or was cut off, and another
    /// server will requeue the task.
    pub fn is_orphan(&self, now: DateTime<Utc>) -> bool {
        self.state == TaskState::Active && self.lease_until.is_none_or(|until| until <= now)
    }

    /// Returns the facts that `message` has about a task in `state`; facts that only a broker knows are left empty.
    #[doc(hidden)]
    pub fn from_message(message: &TaskMessage, state: TaskState) -> Self {
        Self::named(TaskId::from_wire(&message.id), QueueName::from_wire(&message.queue), message, state)
    }

    /// [`from_message`](Self::from_message) for a caller that has the id and the queue of the message already.
    pub(crate) fn named(id: TaskId, queue: QueueName, message: &TaskMessage, state: TaskState) -> Self {
        let text = |text: &String| (!text.is_empty()).then(|| text.clone());
        let instant = |seconds: i64| if seconds == 0 { None } else { DateTime::from_timestamp(seconds, 0) };
        let span = |seconds: i64| u64::try_from(seconds).ok().filter(|&s| s > 0).map(Duration::from_secs);
        Self {
            id,
            queue,
            r#type: message.r#type.clone(),
            payload: message.payload.clone(),
            state,
            ending: Ending::Plain,
            max_retry: message.max_retry(),
            retried: message.spent_retries(),
            crashes: 0,
            last_error: text(&message.error_msg),
            last_failed_at: instant(message.last_failed_at),
            timeout: span(message.timeout),
            deadline: instant(message.deadline),
            expires: None,
            next_process_at: None,
            lease_until: None,
            retention: span(message.retention),
            completed_at: instant(message.completed_at),
            archived_at: None,
            result: None,
            progress: None,
            unique_key: text(&message.unique_key),
            group: text(&message.group_key),
            headers: message.named_headers(),
            replaced: false,
        }
    }
}

partial_debug!(TaskInfo {
    id, queue, r#type, payload as length, state, ending, max_retry, retried, crashes, last_error, last_failed_at, timeout,
    deadline, expires, next_process_at, lease_until, retention, completed_at, archived_at, result as length, progress, unique_key, group,
    headers, replaced, ..
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_is_cut_between_two_characters() {
        for (note, length) in [("ä".repeat(1000), 1024), (format!("x{}", "ä".repeat(1000)), 1023), ("n".into(), 1)] {
            assert_eq!(Progress::new(0.5, note).note.len(), length);
        }
    }

    #[test]
    fn the_debug_text_of_an_archived_task_says_since_when() {
        let archived_at = DateTime::from_timestamp(1_893_553_445, 0);
        let task = TaskInfo { archived_at, ..TaskInfo::from_message(&TaskMessage::default(), TaskState::Archived) };
        assert!(format!("{task:?}").contains(&format!("archived_at: {archived_at:?}")));
    }

    #[test]
    fn the_debug_text_of_a_task_has_the_lengths_of_its_payload_and_its_result() {
        let secret = Bytes::from_static(b"t0k3n");
        let message = TaskMessage { payload: secret.clone(), ..TaskMessage::default() };
        let task = TaskInfo { result: Some(secret), ..TaskInfo::from_message(&message, TaskState::Completed) };
        let text = format!("{task:?}");
        assert!(text.contains(r#"payload: "5 bytes""#) && !text.contains("t0k3n"), "{text}");
    }
}
