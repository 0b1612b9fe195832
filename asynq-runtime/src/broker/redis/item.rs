//! Encodes a task for the script that stores it, and reads the outcome that the script answers.

use chrono::DateTime;
use redis::Value;

use super::{
    super::{BrokerError, NewTask, Placed, Refused, Replaces, When, corrupt, due_ms},
    reply,
    script::LONGEST_IN_SCRIPT,
    span::{milliseconds, whole_seconds},
};
use crate::task::{GroupName, QueueName, TaskId, TaskState};

pub(super) type Outcome = Result<Placed, Refused>;

/// A task ready to be sent.
pub(super) struct Item {
    pub(super) queue: QueueName,
    pub(super) id: TaskId,
    pub(super) message: Vec<u8>,
    /// The due time as the script reads it: empty for now.
    pub(super) when: String,
    /// Key and seconds of the unique lock.
    pub(super) lock: Option<(String, u64)>,
    pub(super) extra: Vec<u8>,
    /// Whether this program generated the id.
    pub(super) ours: bool,
    pub(super) group: Option<GroupName>,
    /// If the task replaces an equal one: within how many milliseconds ('' without a bound).
    pub(super) replaces: Option<String>,
}

impl Item {
    pub(super) fn new(task: NewTask) -> Self {
        Self {
            message: task.message.encode(),
            when: when(task.when),
            lock: task.unique.map(|lock| (lock.key, whole_seconds(lock.ttl).max(1))),
            extra: task.extra.to_bytes().unwrap_or_default(),
            queue: task.queue,
            id: task.id,
            ours: task.id_is_ours,
            group: task.group,
            replaces: task
                .replaces
                .map(|Replaces { within }| within.map(milliseconds).map_or(String::new(), |ms| ms.to_string())),
        }
    }

    /// Returns roughly how many bytes are sent.
    pub(super) fn bytes(&self) -> usize {
        self.message.len() + self.extra.len()
    }

    /// Returns whether the message goes beside the script.
    pub(super) fn is_long(&self) -> bool {
        self.message.len() > LONGEST_IN_SCRIPT && self.replaces.is_none()
    }

    /// Returns whether id and message describe the whole task.
    pub(super) fn is_plain(&self) -> bool {
        self.ours && self.when.is_empty() && self.lock.is_none() && self.extra.is_empty() && self.group.is_none()
    }
}

/// Returns the instant or delay in milliseconds as the script reads it.
fn when(when: When) -> String {
    match when {
        When::Now => String::new(),
        When::In(delay) => format!("+{}", milliseconds(delay)),
        When::At(at) => format!("@{}", due_ms(at)),
    }
}

/// Returns the error of a task that cannot join its group.
fn foreign_group() -> BrokerError {
    corrupt(
        "the key of its group, or of the queue's groups, holds something else than asynq writes there (see TYPE of it)",
    )
}

/// Reads the outcome of each item from the script's answer.
pub(super) fn read_outcomes(value: Value) -> Result<Vec<Outcome>, BrokerError> {
    let mut parts = match value {
        // The answer about one plain task: its letter and the time in one text.
        Value::BulkString(mut text) if !text.is_empty() => {
            let now = text.split_off(1);
            vec![Value::BulkString(text), Value::BulkString(now)]
        }
        value => reply::array(value)?,
    }
    .into_iter();
    let letters = parts.next().and_then(reply::bytes).unwrap_or_default();
    let now = parts.next().unwrap_or_default();
    let due = |ms: &Value| reply::number(ms).and_then(DateTime::from_timestamp_millis);
    let placed = |state, process_at: Option<DateTime<_>>| {
        let placed = process_at.map(|process_at| Placed { state, process_at, replaced: None });
        placed.ok_or_else(|| Refused::Broker(reply::unexpected("no due time")))
    };
    let now = due(&now);
    let mut outcomes = Vec::with_capacity(letters.len());
    for letter in letters {
        outcomes.push(match letter {
            b'p' => placed(TaskState::Pending, now),
            b'g' => placed(TaskState::Aggregating, now),
            b's' => placed(TaskState::Scheduled, parts.next().as_ref().and_then(due)),
            b'r' => {
                let id = parts.next().and_then(reply::text).map(|id| TaskId::from_wire(&id));
                let is_scheduled = parts.next().and_then(reply::text).as_deref() == Some("s");
                let state = if is_scheduled { TaskState::Scheduled } else { TaskState::Pending };
                placed(state, parts.next().as_ref().and_then(due)).map(|placed| Placed { replaced: id, ..placed })
            }
            b'c' => Err(Refused::IdConflict),
            b'w' => Err(Refused::Broker(foreign_group())),
            b'd' => {
                let holder = parts.next().and_then(reply::text).and_then(reply::id);
                Err(Refused::Duplicate { holder })
            }
            _ => Err(Refused::Broker(reply::unexpected("an unknown outcome"))),
        });
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::broker::BrokerErrorKind;

    impl Item {
        /// Returns a plain task whose message has this length.
        pub(in super::super) fn of_length(bytes: usize) -> Self {
            let (queue, id) = (QueueName::from_wire("q"), TaskId::from_wire("t"));
            let (when, lock, extra, group, replaces) = (String::new(), None, Vec::new(), None, None);
            Self { queue, id, message: vec![0; bytes], when, lock, extra, ours: true, group, replaces }
        }
    }

    #[test]
    fn no_due_time_is_early() {
        assert_eq!(when(When::Now), "");
        assert_eq!(when(When::In(Duration::from_millis(7))), "+7");
        let at = DateTime::from_timestamp_millis(1_700_000_000_123).unwrap();
        assert_eq!(when(When::At(at)), "@1700000000123");
        let later = at + chrono::TimeDelta::nanoseconds(1);
        assert_eq!(when(When::At(later)), "@1700000000124", "never early");
    }

    #[test]
    fn each_code_of_the_script_is_one_outcome() {
        let text = |text: &str| Value::BulkString(text.into());
        let value = ["pscdd?gwr", "1700000000123", "1700000000999", "other", "", "old", "s", "1700000000777"]
            .map(text)
            .to_vec();
        let outcomes = read_outcomes(Value::Array(value)).unwrap();
        let at = |ms| DateTime::from_timestamp_millis(ms).unwrap();
        assert!(
            matches!(&outcomes[0], Ok(p) if p.state == TaskState::Pending && p.process_at == at(1_700_000_000_123))
        );
        assert!(matches!(&outcomes[1], Ok(p) if p.state == TaskState::Scheduled));
        assert!(matches!(outcomes[2], Err(Refused::IdConflict)));
        assert!(matches!(&outcomes[3], Err(Refused::Duplicate { holder: Some(id) }) if *id == "other"));
        assert!(matches!(outcomes[4], Err(Refused::Duplicate { holder: None })));
        assert!(matches!(&outcomes[5], Err(Refused::Broker(e)) if e.kind() == BrokerErrorKind::Unexpected));
        assert!(
            matches!(&outcomes[6], Ok(p) if p.state == TaskState::Aggregating && p.process_at == at(1_700_000_000_123))
        );
        assert!(matches!(&outcomes[7], Err(Refused::Broker(e)) if e.kind() == BrokerErrorKind::Corrupt));
        let replaced = Some(TaskId::from_wire("old"));
        let expected = Placed { state: TaskState::Scheduled, process_at: at(1_700_000_000_777), replaced };
        assert!(matches!(&outcomes[8], Ok(placed) if *placed == expected));

        let one = |code: &str| read_outcomes(text(code)).unwrap().remove(0);
        assert!(
            matches!(one("p1700000000123"), Ok(p) if p.state == TaskState::Pending && p.process_at == at(1_700_000_000_123))
        );
        assert!(matches!(one("c1700000000123"), Err(Refused::IdConflict)));
        for strange in ["", "OK", "p"] {
            let read = read_outcomes(text(strange));
            assert!(read.is_err() || matches!(read.unwrap()[..], [Err(Refused::Broker(_))]), "{strange}");
        }
    }
}
