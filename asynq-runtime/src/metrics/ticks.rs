//! The metrics of the ticks of periodic jobs.

use chrono::{DateTime, Utc};

use super::names;

/// The outcome of a tick, by its label in `asynq_ticks_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TickOutcome {
    /// `enqueued`: its task was stored.
    Enqueued,
    /// `duplicate`: another scheduler, or an earlier send of this one, had fired the tick before.
    Duplicate,
    /// `skipped`: the task of the previous tick was still there.
    Skipped,
    /// `refused`: the unique lock or the id of its task was taken.
    Refused,
    /// `paused`: its entry is paused.
    Paused,
    /// `missed`: no scheduler fired the tick in time, and the entry's policy left it out.
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

/// Records how long after its time the broker decided on a tick.
pub fn tick_lateness(r#type: &str, at: DateTime<Utc>, now: DateTime<Utc>) {
    names::describe_once();
    let late = (now - at).to_std().unwrap_or_default();
    metrics::histogram!(names::TICK_LATENESS, "type" => r#type.to_owned()).record(late.as_secs_f64());
}

/// Sets the time of the last tick of a job, or the time when the job became known or its schedule changed.
pub fn last_tick(r#type: &str, at: DateTime<Utc>) {
    names::describe_once();
    metrics::gauge!(names::LAST_TICK, "type" => r#type.to_owned()).set(at.timestamp() as f64);
}
