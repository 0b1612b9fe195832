//! Periodic jobs for `asynq-runtime`: cron expressions with time zones, and a scheduler whose ticks fire once, however many
//! replicas run.
//!
//! - [`CronSpec`]: a cron expression in its time zone, with its next times and a sentence in English.
//! - [`Tick`]: the time that a run of a periodic job is for.
//! - [`Periodic`]: an entry that is made at run time; [`service`] schedules it.
//! - [`Schedule`]: pauses, resumes, forgets and runs entries, from any program.
//!
//! The rules (expressions, clocks, missed and overlapping runs, deploys) are in the repository's `docs/schedules.md`.

#[macro_use(debug_as_text, log, partial_debug)]
extern crate asynq_runtime;

mod control;
mod leader;
mod linked;
mod listed;
mod missed;
mod registry;
mod scheduler;
mod service;
mod spec;
mod tick;
mod timetable;

pub use asynq_grammar::TextError as CronError;
pub use asynq_runtime::broker::{EntryId, Overlap};
/// The time zones that [`CronSpec::parse_in`] takes.
pub use chrono_tz::Tz;

pub use self::{
    control::Schedule,
    missed::Missed,
    registry::{Periodic, PeriodicEntry, PeriodicError},
    service::{SchedulerService, service},
    spec::{CronSpec, SpecError},
    tick::Tick,
};

/// ```
/// use asynq_cron::prelude::*;
/// use asynq_runtime::prelude::*;
///
/// /// Mails the numbers of the day.
/// #[periodic("0 9 * * mon-fri", tz = "Europe/Berlin", queue = "low", missed = "once", overlap = "skip")]
/// async fn report(tick: Tick) -> JobResult {
///     println!("for {}", tick.scheduled_at());
///     Ok(())
/// }
/// # fn main() {}
/// ```
///
pub use asynq_macros::periodic;

/// The imports of a file with periodic jobs: `use asynq_cron::prelude::*;`.
pub mod prelude {
    pub use crate::{CronSpec, Missed, Overlap, Periodic, Tick, Tz, periodic};
}

/// Items for the expansions of `#[periodic]`; no other code should use them.
#[doc(hidden)]
pub mod __private {
    pub use asynq_runtime::{__private::inventory, broker::Overlap};
    pub use chrono_tz::Tz;

    pub use crate::{Missed, PeriodicEntry, Tick};
}
