//! The record of a move between queues, which the task carries until it has arrived: hash field `move`, in both queues.

use bytes::Bytes;
use prost::Message as _;

use crate::{
    broker::redis::keys::Keys,
    task::{QueueName, TaskMessage, TaskState},
};

/// Everything needed to go on with a move that broke off, or to undo it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct Move {
    /// Tells this move from any other.
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) from: String,
    #[prost(string, tag = "3")]
    pub(super) to: String,
    /// asynq's number of the state that the task had.
    #[prost(uint32, tag = "4")]
    pub(super) state: u32,
    /// The task's score in the zset of that state.
    #[prost(int64, optional, tag = "5")]
    pub(super) score: Option<i64>,
    #[prost(int64, optional, tag = "6")]
    pub(super) due_ms: Option<i64>,
    #[prost(int64, optional, tag = "7")]
    pub(super) lock_ends_ms: Option<i64>,
    #[prost(string, tag = "8")]
    pub(super) group: String,
    /// The task's message before the move.
    #[prost(bytes = "bytes", tag = "9")]
    pub(super) message: Bytes,
}

/// An end of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The queue that the task leaves.
    Source,
    /// The queue that the task goes to.
    Target,
}

impl Move {
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Self::decode(bytes).ok()
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    pub(super) fn queue(&self, end: End) -> QueueName {
        QueueName::from_wire(if end == End::Source { &self.from } else { &self.to })
    }

    pub(super) fn state(&self) -> Option<TaskState> {
        TaskState::from_number(self.state.into())
    }

    /// Returns the message at one end of the move; in the target with the new queue, and the lock's key in that queue.
    pub(super) fn message(&self, end: End) -> Bytes {
        let message = TaskMessage::decode(self.message.clone());
        match (end, message) {
            (End::Target, Ok(message)) => {
                let unique_key = self.lock(&message.unique_key, end);
                TaskMessage { queue: self.to.clone(), unique_key, ..message }.encode().into()
            }
            _ => self.message.clone(),
        }
    }

    /// Returns the message of the held task, whose error text names the move. Bytes that are not a message stay as they
    /// are. Earlier versions compute this message again, and lose a task whose message differs: not a byte of the text may
    /// change.
    pub(super) fn message_meanwhile(&self, end: End) -> Bytes {
        let message = self.message(end);
        let Ok(read) = TaskMessage::decode(message.clone()) else { return message };
        let error_msg = format!(
            "asynq: on its way from queue {:?} to {:?}; if it stays here, move it there again to go on",
            self.from, self.to
        );
        TaskMessage { error_msg, ..read }.encode().into()
    }

    /// Returns the key of the task's lock at one end; empty for a key outside the source queue.
    pub(super) fn lock(&self, key: &str, end: End) -> String {
        let (from, to) = (Keys::new(&self.queue(End::Source)), Keys::new(&self.queue(End::Target)));
        match (key.strip_prefix(from.prefix()), end) {
            (Some(_), End::Source) => key.to_owned(),
            (Some(rest), End::Target) => format!("{}{rest}", to.prefix()),
            (None, _) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moving(message: &TaskMessage) -> Move {
        Move {
            name: "n".into(),
            from: "a".into(),
            to: "b".into(),
            state: TaskState::Retry.number().into(),
            message: message.encode().into(),
            ..Move::default()
        }
    }

    #[test]
    fn queue_and_lock_change_and_the_rest_stays() {
        let message = TaskMessage {
            r#type: "t".into(),
            id: "id".into(),
            queue: "a".into(),
            retried: 3,
            error_msg: "boom".into(),
            unique_key: "asynq:{a}:unique:t:0".into(),
            group_key: "G".into(),
            ..TaskMessage::default()
        };
        let moving = moving(&message);
        let read = |bytes| TaskMessage::decode(bytes).unwrap();
        assert_eq!(read(moving.message(End::Source)), message);
        let there = TaskMessage { queue: "b".into(), unique_key: "asynq:{b}:unique:t:0".into(), ..message.clone() };
        assert_eq!(read(moving.message(End::Target)), there);
        for (end, expected) in [(End::Source, message), (End::Target, there)] {
            let meanwhile = read(moving.message_meanwhile(end));
            assert_eq!(
                meanwhile.error_msg,
                r#"asynq: on its way from queue "a" to "b"; if it stays here, move it there again to go on"#,
                "earlier versions know a held task by each byte of this text"
            );
            assert_eq!(TaskMessage { error_msg: "boom".into(), ..meanwhile }, expected);
        }
        assert_eq!(
            moving.lock("asynq:{c}:unique:t:0", End::Target),
            "",
            "a lock of another queue is not a lock of the task"
        );
        assert_eq!(Move::from_bytes(&moving.to_bytes()), Some(moving));
    }

    #[test]
    fn undecodable_bytes_move_unchanged() {
        let moving = Move { message: Bytes::from_static(b"\xff"), ..moving(&TaskMessage::default()) };
        for end in [End::Source, End::Target] {
            assert_eq!(&moving.message(end)[..], b"\xff");
            assert_eq!(&moving.message_meanwhile(end)[..], b"\xff");
        }
    }
}
