//! Values that can be enqueued, and their conversion into a task.

use super::{Job, JobBuilder, PreparedTask, RawTask};

/// A value that can be enqueued: a job, its builder, a [`RawTask`] or a [`PreparedTask`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a task",
    label = "expected a job",
    note = "put `#[job]` on a function and make a task of it, such as `send_email::job(\"ann\")`; a task of another language is a `RawTask`"
)]
pub trait IntoTask {
    /// Returns the task, with the options that are set on this value.
    fn into_task(self) -> PreparedTask;
}

// The note of the trait says what to write; the compiler would add which `Into` is missing.
#[diagnostic::do_not_recommend]
impl<T: Into<PreparedTask>> IntoTask for T {
    fn into_task(self) -> PreparedTask {
        self.into()
    }
}

impl<J: Job> From<J> for PreparedTask {
    fn from(job: J) -> Self {
        Self::of(&job)
    }
}

impl<J: Job> From<JobBuilder<J>> for PreparedTask {
    fn from(builder: JobBuilder<J>) -> Self {
        builder.task
    }
}

impl From<RawTask> for PreparedTask {
    fn from(raw: RawTask) -> Self {
        raw.task
    }
}
