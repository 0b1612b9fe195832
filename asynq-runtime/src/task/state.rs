//! The seven states of a task.

use std::{fmt, str::FromStr};

/// The state of a task; the names are asynq's and appear literally in Redis. There are no other states, so a `match` may be
/// complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum TaskState {
    /// A worker runs the task and extends its lease.
    Active = 1,
    /// The task is ready and waits for a free worker.
    Pending = 2,
    /// The task waits for its time.
    Scheduled = 3,
    /// The task failed (or was deferred) and waits for its next attempt.
    Retry = 4,
    /// The task was given up and runs again only on request.
    #[doc(alias("dead", "dead_letter", "morgue"))]
    Archived = 5,
    /// The task succeeded and is kept for its retention.
    Completed = 6,
    /// The task waits in a group to be aggregated.
    Aggregating = 7,
}

impl TaskState {
    /// Every state, in the order of asynq's numbers.
    pub const ALL: [Self; 7] =
        [Self::Active, Self::Pending, Self::Scheduled, Self::Retry, Self::Archived, Self::Completed, Self::Aggregating];

    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Pending => "pending",
            Self::Scheduled => "scheduled",
            Self::Retry => "retry",
            Self::Archived => "archived",
            Self::Completed => "completed",
            Self::Aggregating => "aggregating",
        }
    }

    /// Returns asynq's number of the state, 1 to 7; SQLite's `task.state` holds it.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the state with asynq's number `number`, if there is one.
    pub fn from_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|state| i64::from(state.number()) == number)
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A text that names no state.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a task state (active, pending, scheduled, retry, archived, completed, aggregating)")]
pub struct ParseTaskStateError(String);

debug_as_text!(ParseTaskStateError);

impl FromStr for TaskState {
    type Err = ParseTaskStateError;

    fn from_str(name: &str) -> Result<Self, ParseTaskStateError> {
        Self::ALL.into_iter().find(|state| state.as_str() == name).ok_or_else(|| ParseTaskStateError(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_asynqs() {
        let expected = ["active", "pending", "scheduled", "retry", "archived", "completed", "aggregating"];
        for (i, (state, name)) in TaskState::ALL.into_iter().zip(expected).enumerate() {
            assert_eq!(state.as_str(), name);
            assert_eq!(usize::from(state.number()), i + 1);
            assert_eq!(name.parse(), Ok(state));
            assert_eq!(TaskState::from_number(i as i64 + 1), Some(state));
        }
        assert!("running".parse::<TaskState>().is_err());
        assert_eq!(TaskState::from_number(8), None);
    }
}
