//! The item that `#[periodic]` adds to the inventory of a program.

use std::time::Duration;

use asynq_runtime::{
    JobDescriptor, PreparedTask,
    broker::Overlap,
    server::{Service, ServiceRow},
    testing::Timetable,
};
use chrono_tz::Tz;

use super::{Periodic, PeriodicError};
use crate::{CronSpec, Missed};

/// A periodic job that is linked into this program. Its functions are `const`, because the inventory is made of
/// statics.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct PeriodicEntry {
    /// The job.
    pub job: JobDescriptor,
    /// The schedule as text.
    spec: &'static str,
    /// The time zone of the schedule; `None` means the zone in the text, or UTC.
    zone: Option<Tz>,
    /// The policy for missed ticks.
    missed: Missed,
    /// The policy for a tick while the previous task has not ended.
    overlap: Overlap,
    /// The longest time by which a tick is deferred.
    jitter: Duration,
    task: fn() -> PreparedTask,
    linked: &'static Linked,
}

/// The code that this crate adds to a program by way of the inventory. It is reached through an entry, so that a program without
/// `#[periodic]` jobs contains neither a scheduler nor the tables of all time zones, which take two megabytes of its memory.
#[derive(Debug)]
pub(crate) struct Linked {
    /// Makes the scheduler of a server.
    pub(crate) scheduler: fn() -> Box<dyn Service>,
    /// Makes the rows of the listing of `jobs`.
    pub(crate) rows: fn() -> Vec<ServiceRow>,
    /// The schedules of a `TestApp`.
    pub(crate) timetable: Timetable,
}

asynq_runtime::__private::inventory::collect!(PeriodicEntry);

impl PeriodicEntry {
    /// Makes an entry by which the program contains `linked`.
    pub(crate) const fn new(
        job: JobDescriptor,
        spec: &'static str,
        task: fn() -> PreparedTask,
        linked: &'static Linked,
    ) -> Self {
        Self {
            job,
            spec,
            zone: None,
            missed: Missed::Once,
            overlap: Overlap::Allow,
            jitter: Duration::ZERO,
            task,
            linked,
        }
    }

    /// Sets the zone of the schedule.
    #[must_use]
    pub const fn zone(mut self, zone: Tz) -> Self {
        self.zone = Some(zone);
        self
    }

    /// Sets the policy for missed ticks.
    #[must_use]
    pub const fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// Sets the policy for a tick while the previous task has not ended.
    #[must_use]
    pub const fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// Sets the longest time by which a tick is deferred.
    #[must_use]
    pub const fn jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// Returns the entries of this program, sorted by the name of the job.
    pub fn linked() -> Vec<&'static Self> {
        let mut entries: Vec<_> = asynq_runtime::__private::inventory::iter::<Self>().collect();
        entries.sort_by_key(|entry| entry.job.name);
        entries
    }

    /// Returns the code of this crate in this program, if it has an entry.
    pub(crate) fn code() -> Option<&'static Linked> {
        asynq_runtime::__private::inventory::iter::<Self>().next().map(|entry| entry.linked)
    }

    /// Checks the entry and returns it as a [`Periodic`].
    ///
    /// # Errors
    ///
    /// The schedule or an option is not valid; the macro refuses such an entry at compile time.
    pub fn to_periodic(&self) -> Result<Periodic, PeriodicError> {
        let spec = match self.zone {
            Some(zone) => CronSpec::parse_in(self.spec, zone),
            None => CronSpec::parse(self.spec),
        };
        let spec = spec.map_err(|source| PeriodicError::Spec { job: self.job.name.to_owned(), source })?;
        // The id depends on the job alone, so that a change in the format of the arguments does not change it.
        let periodic = Periodic::new(spec, (self.task)())?.key("");
        let periodic = periodic.missed(self.missed).overlap(self.overlap).jitter(self.jitter).place(self.job.place());
        periodic.check_jitter()?;
        Ok(periodic)
    }
}
