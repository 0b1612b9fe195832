//! Gives each `#[periodic]` job the code that a program with such jobs contains.

use asynq_runtime::{Job, JobDescriptor, PreparedTask};

use crate::{
    registry::{Linked, PeriodicEntry},
    service, timetable,
};

static LINKED: Linked = Linked { scheduler: service::linked, rows: service::rows, timetable: timetable::LINKED };

impl PeriodicEntry {
    /// Makes an entry, written at `file`:`line`, that enqueues the result of `task`.
    pub const fn of<J: Job>(spec: &'static str, task: fn() -> PreparedTask, file: &'static str, line: u32) -> Self {
        Self::new(JobDescriptor::of::<J>(file, line), spec, task, &LINKED)
    }
}
