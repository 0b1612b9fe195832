//! What can be enqueued, and how it becomes a task.

use super::{Job, JobBuilder, PreparedTask, RawTask};

/// What can be enqueued: a job, its builder, a [`RawTask`] or a [`PreparedTask`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a task",
    label = "expected a job",
    note = "put `#[job]` on a function and make a task of it, such as `send_email::job(\"ann\")`; a task of another language is a `RawTask`"
)]
pub trait IntoTask {
    /// The task, with the options that are set on it.
    fn into_task(self) -> PreparedTask;
}

// The note of the trait says what to write; what `Into` lacks would be told besides.
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
