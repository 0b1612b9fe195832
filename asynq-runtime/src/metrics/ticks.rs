//! What is counted of the ticks of periodic jobs.

use chrono::{DateTime, Utc};

use super::names;

/// What became of a tick, by its label in `asynq_ticks_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TickOutcome {
    /// `enqueued`: its task was stored.
    Enqueued,
    /// `duplicate`: the tick had been fired before, by another scheduler or by an earlier send of this one.
    Duplicate,
    /// `skipped`: the task of the tick before was still there.
    Skipped,
    /// `refused`: its unique lock or its id was taken.
    Refused,
    /// `paused`: its entry is paused.
    Paused,
    /// `missed`: no scheduler fired it in time, and its policy left it out.
    Missed,
    /// `invalid`: its task could not be made.
    Invalid,
}

impl TickOutcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Enqueued => "enqueued",
            Self::Duplicate => "duplicate",
            Self::Skipped => "skipped",
            Self::Refused => "refused",
            Self::Paused => "paused",
            Self::Missed => "missed",
            Self::Invalid => "invalid",
        }
    }
}

/// Counts `n` ticks of a job.
pub fn ticks(r#type: &str, outcome: TickOutcome, n: u64) {
    if n > 0 {
        names::describe_once();
        let labels = [("type", r#type.to_owned()), ("outcome", outcome.as_str().to_owned())];
        metrics::counter!(names::TICKS, &labels).increment(n);
    }
}

/// Records how long after its time the broker has decided on a tick.
pub fn tick_lateness(r#type: &str, at: DateTime<Utc>, now: DateTime<Utc>) {
    names::describe_once();
    let late = (now - at).to_std().unwrap_or_default();
    metrics::histogram!(names::TICK_LATENESS, "type" => r#type.to_owned()).record(late.as_secs_f64());
}

/// Says when the last tick of a job was for, or when it became known or its schedule changed.
pub fn last_tick(r#type: &str, at: DateTime<Utc>) {
    names::describe_once();
    metrics::gauge!(names::LAST_TICK, "type" => r#type.to_owned()).set(at.timestamp() as f64);
}
