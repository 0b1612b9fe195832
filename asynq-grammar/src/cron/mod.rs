//! Cron expressions: text to sets of seconds, minutes, hours and days, and back to an English sentence.
//!
//! Two readings of one grammar: [`Mode::Compat`] takes precisely what robfig/cron v3 takes, mistakes
//! included; [`Mode::Default`] adds seconds, `L`, `W` and `#`, and refuses what is almost surely a mistake, a schedule
//! that can never fire among it.

mod civil;
mod error;
mod every;
mod field;
mod parse;
mod sentence;

pub use self::{
    civil::{Civil, days_in_month, weekday},
    error::{CronError, Field},
    field::Fields,
    parse::parse,
};

use std::time::Duration;

/// How strictly a text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// robfig's grammar with seconds, `L`, `W` and `#`, without what is almost surely a mistake.
    #[default]
    Default,
    /// robfig/cron v3's grammar, neither more nor less.
    Compat,
}

/// What a cron text says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The time zone in front, `TZ=…` or `CRON_TZ=…`, as it was written; empty means UTC.
    pub zone: Option<Zone>,
    /// When it fires.
    pub schedule: Schedule,
}

/// The zone in front of a cron text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// Its name; nothing here knows which zones exist.
    pub name: String,
    /// The bytes of the name in the text.
    pub range: std::ops::Range<usize>,
}

/// When something fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// Whenever the wall clock matches.
    Fields(Fields),
    /// Again and again after this time, at least 1 s, whole seconds.
    Every(Duration),
}

impl Schedule {
    /// The schedule in one English sentence without a full stop: "At 09:00, Monday to Friday".
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Fields(fields) => sentence::of_fields(fields),
            Self::Every(interval) => sentence::of_interval(*interval),
        }
    }
}
