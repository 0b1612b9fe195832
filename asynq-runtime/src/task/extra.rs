//! The facts that asynq's message cannot carry: one extra hash field, written only if a fact differs from its default. The rules for
//! its fields are in docs/design/wire.md#extra-facts.

use chrono::{DateTime, Utc};
use prost::{
    DecodeError, Message as _,
    encoding::{DecodeContext, decode_key, skip_field},
};

/// The highest number of a field of this version; 10 was never used. A newer version takes higher ones for its own.
const HIGHEST: u32 = 12;

/// The expiry of a task that a person ran after it had expired, Unix milliseconds: on Redis, where a script can add to the facts but take
/// none away, it moves here, to the end of the year 9999. No job can name it.
const NO_EXPIRY_MS: i64 = 253_402_300_799_000;

/// Facts about a task beside asynq's message: hash field `x` on Redis, column `extra` on SQLite.
///
/// The encoding is protobuf, so that a newer program may add fields: an older one reads the others, and keeps the new ones when it
/// writes the facts again.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Extra {
    /// How many times a worker may die while it runs this task before the task is archived; absent =
    /// [`DEFAULT_MAX_CRASHES`](Self::DEFAULT_MAX_CRASHES). This is the first field on the wire, where scripts read it.
    #[prost(uint32, optional, tag = "1")]
    pub max_crashes: Option<u32>,
    /// Set while workers requeue the task because they do not know its type or shape.
    #[prost(message, optional, tag = "2")]
    pub unknown: Option<Unknown>,
    /// Unix milliseconds after which no attempt at the task begins; absent = never expires.
    #[prost(int64, optional, tag = "3")]
    pub expires_ms: Option<i64>,
    /// The event that frees the unique lock, if not the default; an unknown number counts as the default.
    #[prost(enumeration = "UniqueUntil", tag = "4")]
    pub unique_until: i32,
    /// Whether the unique lock lasts at least as long as the task runs, whatever its TTL.
    #[prost(bool, tag = "5")]
    pub unique_extend: bool,
    /// How many attempts in a row have ended as not a failure.
    #[prost(uint32, tag = "6")]
    pub deferrals: u32,
    /// Whether a later tick of the schedule, or an equal task with newer arguments, took the task's place while it ran: the
    /// task ends with this run, whatever retries it has left. A script sets this field by appending to the message.
    #[prost(bool, tag = "7")]
    pub replaced: bool,
    /// Unix second at which the task had completed before it was [`replaced`](Self::replaced), 0 if it had not: on Redis the mark
    /// counts only while the message tells the same, because a Go tool that runs a completed task again leaves it.
    #[prost(int64, tag = "12")]
    pub replaced_after: i64,
    /// Whether a program waits for the end of the task: if its job revokes the task, it is then kept for its retention
    /// instead of being deleted, so that the program learns the end.
    #[prost(bool, tag = "8")]
    pub awaited: bool,
    /// How the task ended, if its state does not say it. An unknown number counts as none, so that older programs take what the state
    /// says: they would report a new ending of a completed task as a success.
    #[prost(enumeration = "Ending", tag = "9")]
    pub ending: i32,
    /// Unix milliseconds of the first of the enqueues that replaced each other while the task waited, if that bounds the
    /// task's time (`debounce_max`). A script sets this field by appending to the message.
    #[prost(int64, optional, tag = "11")]
    pub replaced_since_ms: Option<i64>,
    /// The fields of newer versions as they are stored. Only [`from_bytes`](Self::from_bytes) and [`to_bytes`](Self::to_bytes) know
    /// of them; the field of this number is never stored.
    #[doc(hidden)]
    #[prost(bytes = "vec", tag = "536870911")]
    pub newer: Vec<u8>,
}

/// How a task ended, where its state does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
#[non_exhaustive]
pub enum Ending {
    /// The state says how the task ended, or the task has not ended.
    Plain = 0,
    /// Completed, because its job revoked the task; only awaited tasks are kept after that.
    Revoked = 1,
    /// Archived in place of an attempt, the first or a later one, because the task had expired.
    Expired = 2,
}

impl Ending {
    /// Returns the word for it in JSON; `None` for [`Plain`](Self::Plain).
    pub fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Revoked => Some("revoked"),
            Self::Expired => Some("expired"),
        }
    }

    /// Returns this ending if a task in `state` can have it. The stored ending stays on a task that Go's tools run
    /// again. The next end by a worker of ours removes it; that by a Go worker in the same state cannot be told from the earlier one.
    #[allow(dead_code, reason = "brokers use it, and there may be none")]
    pub(crate) fn of(self, state: super::TaskState) -> Self {
        match (self, state) {
            (Self::Revoked, super::TaskState::Completed) | (Self::Expired, super::TaskState::Archived) => self,
            _ => Self::Plain,
        }
    }
}

/// The event that frees the unique lock of a task; the end of its TTL frees the lock in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
#[non_exhaustive]
pub enum UniqueUntil {
    /// Any end: success, archive or deletion. The default.
    End = 0,
    /// Success or deletion, as in asynq: an archived task keeps its lock.
    Success = 1,
    /// The first start of the task, which is when a slot of a worker takes it. A task that is put back before it began, because no
    /// thread was free or the worker stopped, waits without its lock.
    Start = 2,
}

/// Since when and how often a task of an unknown type or shape was requeued. A new fact about this is a field of [`Extra`], of which
/// older versions keep the fields that they do not know; of this record they drop them.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Unknown {
    /// Unix milliseconds of the first requeue.
    #[prost(int64, tag = "1")]
    pub since_ms: i64,
    /// How often the task was requeued so far.
    #[prost(uint32, tag = "2")]
    pub times: u32,
    /// The `retried` of the task at these requeues. A worker that fails the task later knows it, and one of Go leaves this record in
    /// place: with another `retried` the record is over. On Redis it becomes [`u32::MAX`] when a person runs the task. `None` if a worker
    /// of an older version wrote the record; it is not over then.
    #[prost(uint32, optional, tag = "3")]
    pub retried: Option<u32>,
}

impl Extra {
    /// Shortest retention of an awaited task, in seconds.
    pub(crate) const AWAITED_RETENTION: u64 = 60;

    /// How often a worker may die while it runs a task that has no limit of its own.
    pub const DEFAULT_MAX_CRASHES: u32 = 3;

    /// Returns how often a worker may die while it runs this task before the task is archived; at least once.
    pub(crate) fn crash_limit(&self) -> u32 {
        self.max_crashes.unwrap_or(Self::DEFAULT_MAX_CRASHES).max(1)
    }

    /// Returns whether a task that took `crashes` workers down is archived without being run again.
    pub(crate) fn is_poison(&self, crashes: u32) -> bool {
        crashes >= self.crash_limit()
    }

    /// Returns whether the next death would archive a task that took `crashes` workers down, or one of the last has. Such a task is
    /// the only one of its kind in a server, because a death is charged to everything that the dead worker held: tasks that merely
    /// ran beside a poison task then clear themselves, and the poison task dies alone, in its hooks as well.
    pub fn is_quarantined(&self, crashes: u32) -> bool {
        crashes > 0 && crashes.saturating_add(1) >= self.crash_limit()
    }

    /// Returns the bytes to store, or `None` if every fact has its default.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        (self.encoded_len() > 0).then(|| {
            let mut bytes = Self { newer: Vec::new(), ..self.clone() }.encode_to_vec();
            // Bytes that cannot be read would hide a fact of this version in front of them, which has to count.
            if bytes.is_empty() || Self::decode(&self.newer[..]).is_ok() {
                bytes.extend_from_slice(&self.newer);
            }
            bytes
        })
    }

    /// Returns the facts of a task that a person runs at `now_ms`, Unix milliseconds: the next run is another than one that was
    /// replaced or has ended, an expiry that has passed would end it before it begins, and the time in which it lay in the archive
    /// says nothing of the workers.
    #[cfg(feature = "sqlite")]
    pub(crate) fn to_run_again(&self, now_ms: i64) -> Self {
        let expires_ms = self.expires_ms.filter(|_| !self.is_expired(now_ms));
        let ending = Ending::Plain.into();
        Self { unknown: None, deferrals: 0, replaced: false, ending, expires_ms, ..self.clone() }
    }

    /// Returns whether archiving the task leaves its unique lock in place.
    #[cfg(feature = "sqlite")]
    pub(crate) fn keeps_lock_when_archived(&self) -> bool {
        self.unique_until() == UniqueUntil::Success
    }

    /// Returns whether the task must not be started any more at `now_ms`, Unix milliseconds.
    pub fn is_expired(&self, now_ms: i64) -> bool {
        self.expires_ms.is_some_and(|end| end <= now_ms)
    }

    /// Returns the instant after which no attempt at the task begins.
    pub(crate) fn expires(&self) -> Option<DateTime<Utc>> {
        self.expires_ms.filter(|&ms| ms < NO_EXPIRY_MS).and_then(DateTime::from_timestamp_millis)
    }

    /// Reads stored bytes. Bytes that cannot be read count as the defaults, because they must not stop a task; they are written
    /// again as they are, for the version that can read them, until the task gets a fact of this version.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let Ok(known) = Self::decode(bytes) else { return Self { newer: bytes.to_vec(), ..Self::default() } };
        Self { newer: newer(bytes).unwrap_or_default(), ..known }
    }
}

/// Returns the fields of newer versions among these bytes.
fn newer(mut bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut newer = Vec::new();
    while !bytes.is_empty() {
        let field = bytes;
        let (tag, wire_type) = decode_key(&mut bytes)?;
        skip_field(wire_type, tag, &mut bytes, DecodeContext::default())?;
        if tag > HIGHEST {
            newer.extend_from_slice(&field[..field.len() - bytes.len()]);
        }
    }
    Ok(newer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::TaskState;

    #[test]
    fn a_mark_counts_only_in_the_state_that_it_belongs_to() {
        for state in TaskState::ALL {
            for (ending, home) in [
                (Ending::Plain, None),
                (Ending::Revoked, Some(TaskState::Completed)),
                (Ending::Expired, Some(TaskState::Archived)),
            ] {
                let expected = if home == Some(state) { ending } else { Ending::Plain };
                assert_eq!(ending.of(state), expected, "{ending:?} {state}");
            }
        }
    }

    #[test]
    fn the_word_for_an_ending_tells_what_the_state_does_not() {
        let words = [Ending::Plain, Ending::Revoked, Ending::Expired].map(Ending::as_str);
        assert_eq!(words, [None, Some("revoked"), Some("expired")]);
    }

    #[test]
    fn an_empty_extra_is_written_as_no_bytes() {
        assert_eq!(Extra::default().to_bytes(), None);
        let extra = Extra {
            max_crashes: Some(1),
            unknown: Some(Unknown { since_ms: 5, times: 2, retried: Some(1) }),
            unique_until: UniqueUntil::Start.into(),
            ..Extra::default()
        };
        assert_eq!(Extra::from_bytes(&extra.to_bytes().unwrap()), extra);
    }

    #[test]
    fn an_ending_and_an_event_of_newer_versions_count_as_the_default_and_stay() {
        let stored = b"\x20\x07\x48\x07";
        let read = Extra::from_bytes(stored);
        assert_eq!((read.unique_until(), read.ending()), (UniqueUntil::End, Ending::Plain));
        assert_eq!(read.to_bytes().unwrap(), stored);
    }

    #[test]
    fn bytes_that_cannot_be_read_stay_until_the_task_gets_a_fact() {
        // Field 3 is a text here, and field 5 is set.
        let odd = b"\x1a\x01x\x28\x01";
        let read = Extra::from_bytes(odd);
        assert_eq!(read, Extra { newer: odd.to_vec(), ..Extra::default() }, "the facts are the defaults");
        assert_eq!(read.to_bytes().as_deref(), Some(&odd[..]));
        let later = Extra { deferrals: 1, ..read };
        assert_eq!(Extra::from_bytes(&later.to_bytes().unwrap()), Extra { deferrals: 1, ..Extra::default() });
    }

    #[test]
    fn fields_of_newer_versions_are_written_again_unchanged() {
        // Each field of this version, by name: a new one has to be below the highest number as well.
        let ours = Extra {
            max_crashes: Some(1),
            unknown: Some(Unknown { since_ms: 5, times: 2, retried: Some(1) }),
            expires_ms: Some(6),
            unique_until: UniqueUntil::Start.into(),
            unique_extend: true,
            deferrals: 3,
            replaced: true,
            replaced_after: 7,
            awaited: true,
            ending: Ending::Expired.into(),
            replaced_since_ms: Some(8),
            newer: Vec::new(),
        };
        // Programs of other versions, and scripts, read these numbers.
        let stored = b"\x08\x01\x12\x06\x08\x05\x10\x02\x18\x01\x18\x06\x20\x02\x28\x01\
            \x30\x03\x38\x01\x40\x01\x48\x02\x58\x08\x60\x07";
        assert_eq!(ours.to_bytes().unwrap(), stored);
        assert_eq!(Extra::from_bytes(stored), ours);
        // Field 13 is a number, field 100 a text; a script has appended field 7 behind them.
        let (number, text, appended) = (b"\x68\x05", b"\xa2\x06\x02eu", b"\x38\x00");
        let stored = [&ours.to_bytes().unwrap()[..], number, text, appended].concat();
        let read = Extra::from_bytes(&stored);
        assert_eq!(read, Extra { replaced: false, newer: [&number[..], text].concat(), ..ours });
        let later = Extra { deferrals: 4, ..read };
        assert_eq!(Extra::from_bytes(&later.to_bytes().unwrap()), later);
        assert_eq!(Extra::from_bytes(text).to_bytes().as_deref(), Some(&text[..]), "also where nothing else is there");
    }
}
