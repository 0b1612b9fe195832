//! Cron expressions: text to sets of seconds, minutes, hours and days, and back to an English sentence.
//!
//! The grammar has two modes. [`Mode::Compat`] accepts precisely the texts that robfig/cron v3 accepts, its flaws
//! included. [`Mode::Default`] adds seconds, `L`, `W` and `#`, and refuses texts that are almost surely mistakes, such
//! as a schedule that can never fire.

mod civil;
mod every;
mod field;
mod parse;
mod sentence;

pub use self::{civil::Civil, field::Fields, parse::parse};

use std::time::Duration;

/// The most missed ticks of a schedule that are made up for one by one.
pub const MOST_REPLAYED: u32 = 10_000;

/// How strictly a text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// robfig's grammar with seconds, `L`, `W` and `#`; texts that are almost surely mistakes are refused.
    #[default]
    Default,
    /// robfig/cron v3's grammar, neither more nor less.
    Compat,
}

/// A parsed cron text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The time zone in front, `TZ=…` or `CRON_TZ=…`, as it was written; empty means UTC.
    pub zone: Option<Zone>,
    /// When the schedule fires.
    pub schedule: Schedule,
}

/// The zone in front of a cron text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// The name of the zone, which is not checked here.
    pub name: String,
    /// The bytes of the name in the text.
    pub range: std::ops::Range<usize>,
}

/// A parsed schedule, without its zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// Fires whenever the wall clock matches.
    Fields(Fields),
    /// Fires in intervals of this length, at least 1 s, whole seconds.
    Every(Duration),
}

impl Schedule {
    /// Returns the schedule as one English sentence without a full stop: "At 09:00, Monday to Friday".
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Fields(fields) => sentence::of_fields(fields),
            Self::Every(interval) => sentence::of_interval(*interval),
        }
    }
}
