//! What `#[periodic]` writes into the inventory of a program.

use std::time::Duration;

use asynq_runtime::{Job, JobDescriptor, PreparedTask, broker::Overlap};
use chrono_tz::Tz;

use super::{Periodic, PeriodicError};
use crate::{CronSpec, Missed};

/// A periodic job that is linked into this program; `const`, because the inventory is made of statics.
#[derive(Debug, Clone, Copy)]
pub struct PeriodicEntry {
    /// The job.
    pub job: JobDescriptor,
    /// Its schedule as text.
    pub spec: &'static str,
    /// The zone of its schedule; UTC unless the text names one.
    pub zone: Option<Tz>,
    /// What becomes of missed ticks.
    pub missed: Missed,
    /// What becomes of a tick while the previous task is there.
    pub overlap: Overlap,
    /// Each tick is deferred by up to this time.
    pub jitter: Duration,
    task: fn() -> PreparedTask,
}

asynq_runtime::__private::inventory::collect!(PeriodicEntry);

impl PeriodicEntry {
    /// The entry that enqueues what `task` makes, written at `file`:`line`.
    pub const fn of<J: Job>(spec: &'static str, task: fn() -> PreparedTask, file: &'static str, line: u32) -> Self {
        Self {
            job: JobDescriptor::of::<J>(file, line),
            spec,
            zone: None,
            missed: Missed::Once,
            overlap: Overlap::Allow,
            jitter: Duration::ZERO,
            task,
        }
    }

    /// Sets the zone of the schedule.
    #[must_use]
    pub const fn zone(mut self, zone: Tz) -> Self {
        self.zone = Some(zone);
        self
    }

    /// Sets what becomes of missed ticks.
    #[must_use]
    pub const fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// Sets what becomes of a tick while the previous task is there.
    #[must_use]
    pub const fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// Sets how far a tick may be deferred.
    #[must_use]
    pub const fn jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// The entries of this program, by name of the job.
    pub fn linked() -> Vec<&'static Self> {
        let mut entries: Vec<_> = asynq_runtime::__private::inventory::iter::<Self>().collect();
        entries.sort_by_key(|entry| entry.job.name);
        entries
    }

    /// The entry, checked.
    ///
    /// # Errors
    ///
    /// What the macro refuses while compiling: a schedule or an option that cannot be used.
    pub fn to_periodic(&self) -> Result<Periodic, PeriodicError> {
        let spec = match self.zone {
            Some(zone) => CronSpec::parse_in(self.spec, zone),
            None => CronSpec::parse(self.spec),
        };
        let spec = spec.map_err(|source| PeriodicError::Spec { job: self.job.name.to_owned(), source })?;
        // By its job alone, whatever becomes of the format of its arguments.
        let periodic = Periodic::new(spec, (self.task)())?.key("");
        Ok(periodic.missed(self.missed).overlap(self.overlap).jitter(self.jitter).place(self.job.place()))
    }
}
