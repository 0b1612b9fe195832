//! One dequeued task, in the form in which it runs, is shown and is settled.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};

use crate::{
    broker::{Action, Run, RunKey, Settlement},
    task::{Extra, TaskMessage},
};

/// One dequeued task. A message that could not be read is replaced by one that has its bytes as the payload, so that nothing
/// is lost.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) key: RunKey,
    pub(crate) message: Arc<TaskMessage>,
    pub(crate) crashes: u32,
    pub(crate) extra: Extra,
    /// How long the task had been pending.
    pub(crate) waited: Option<Duration>,
    /// When the broker was asked for the task, or took it on SQLite.
    pub(crate) asked: Instant,
    /// The same by the broker's clock.
    pub(crate) asked_at: DateTime<Utc>,
    /// When the broker gave the task to this run, by its clock.
    pub(crate) taken_at: DateTime<Utc>,
    /// Why the message could not be read, if so.
    pub(crate) defect: Option<String>,
}

impl Attempt {
    /// Returns whether workers crashed too often while this task ran.
    pub(crate) fn is_poison(&self) -> bool {
        self.extra.is_poison(self.crashes)
    }

    /// Returns whether two workers crashed when they were to archive this poison task: in a hook, or while they read the arguments for
    /// one. A single crash may be that of a task beside it.
    pub(crate) fn has_deadly_hooks(&self) -> bool {
        self.crashes > self.extra.crash_limit().saturating_add(1)
    }

    /// Returns whether the task has a unique lock that must last as long as it runs.
    pub(crate) fn extends_lock(&self) -> bool {
        self.extra.unique_extend && !self.message.unique_key.is_empty()
    }

    /// Returns the settlement of the task by this action.
    pub(crate) fn settlement(&self, action: Action) -> Settlement {
        Settlement { run: self.key.clone(), message: Arc::clone(&self.message), action, resend: false }
    }

    /// Returns whether this is the only quarantined task of its server: the next crash would archive it, or the last has.
    pub(crate) fn is_quarantined(&self) -> bool {
        self.extra.is_quarantined(self.crashes) && self.defect.is_none()
    }
}

impl From<Run> for Attempt {
    fn from(run: Run) -> Self {
        let Run { key, message, crashes, extra, waited, asked, asked_at, taken_at } = run;
        let (message, defect) = match message {
            Ok(message) => (message, None),
            Err(bad) => {
                let defect = bad.to_string();
                (TaskMessage::in_place_of(bad.raw, &key.id, &key.queue), Some(defect))
            }
        };
        Self { key, message: Arc::new(message), crashes, extra, waited, asked, asked_at, taken_at, defect }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        broker::RunToken,
        task::{QueueName, TaskId, UndecodableMessage},
    };

    fn run(crashes: u32, max_crashes: Option<u32>) -> Run {
        let key = RunKey {
            queue: QueueName::from_wire("q"),
            id: TaskId::from_wire("i"),
            token: RunToken(1),
            server: 0,
            row: 0,
        };
        let extra = Extra { max_crashes, ..Extra::default() };
        let message = Ok(TaskMessage::default());
        let now = Utc::now();
        Run { key, message, crashes, extra, waited: None, asked: Instant::now(), asked_at: now, taken_at: now }
    }

    #[test]
    fn a_task_is_quarantined_from_its_last_chance_on() {
        let table = [
            // crashes, at most   quarantined, poison
            (0, None, false, false),
            (1, None, false, false),
            (2, None, true, false),
            (3, None, true, true),
            (9, None, true, true),
            (1, Some(1), true, true),
            (1, Some(2), true, false),
            (2, Some(4), false, false),
            (3, Some(4), true, false),
            (0, Some(0), false, false),
        ];
        for (crashes, most, is_quarantined, is_poison) in table {
            let attempt = Attempt::from(run(crashes, most));
            assert_eq!(
                (attempt.is_quarantined(), attempt.is_poison()),
                (is_quarantined, is_poison),
                "{crashes} of {most:?}"
            );
        }
    }

    #[test]
    fn an_unreadable_message_keeps_its_bytes_and_is_not_quarantined() {
        let bad = UndecodableMessage { raw: b"\xff"[..].into(), reason: "no".into() };
        let attempt = Attempt::from(Run { message: Err(bad), ..run(2, None) });
        assert_eq!((attempt.message.r#type.as_str(), &attempt.message.payload[..]), ("undecodable", &b"\xff"[..]));
        assert_eq!((attempt.message.id.as_str(), attempt.message.queue.as_str()), ("i", "q"));
        assert!(!attempt.is_quarantined());
    }
}
