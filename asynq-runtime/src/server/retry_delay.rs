//! How long a failed task waits: its job's own way, else the server's, else asynq's formula.

use std::{fmt, sync::Arc, time::Duration};

use super::backoff::LONGEST_RETRY_DELAY;
use crate::{
    job::{Backoff, JobError, panics},
    task::{TaskInfo, TaskMessage, TaskState},
};

type Decide = dyn Fn(u32, &JobError, &TaskInfo) -> Duration + Send + Sync;

/// How long failed tasks of a whole server wait, decided by a function: asynq's `RetryDelayFunc`.
#[derive(Clone)]
pub struct ServerBackoff(Arc<Decide>);

impl ServerBackoff {
    /// What this function says of how often the task had failed before, of the error, and of the task; at most 10 days.
    pub fn new(decide: impl Fn(u32, &JobError, &TaskInfo) -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(decide))
    }
}

impl fmt::Debug for ServerBackoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerBackoff")
    }
}

/// What decides how long one task waits after a failure.
#[derive(Debug, Clone)]
pub(crate) struct RetryDelay {
    pub(crate) job: Option<Backoff>,
    pub(crate) server: Option<ServerBackoff>,
    pub(crate) message: Arc<TaskMessage>,
}

impl RetryDelay {
    /// The delay after `error`; `None` leaves it to asynq's formula. A function that panics is passed over: the task must
    /// not suffer for it.
    pub(crate) fn after(&self, error: &JobError) -> Option<Duration> {
        let retried = u32::try_from(self.message.retried).unwrap_or(0);
        let job = self.job.and_then(|job| decided("the job's", || job.delay(retried, error)));
        job.or_else(|| {
            let ServerBackoff(decide) = self.server.as_ref()?;
            let task = TaskInfo::from_message(&self.message, TaskState::Active);
            decided("the server's", || decide(retried, error, &task).min(LONGEST_RETRY_DELAY))
        })
    }
}

fn decided(whose: &str, decide: impl FnOnce() -> Duration) -> Option<Duration> {
    let decided = panics::catch(decide);
    if let Err(panic) = &decided {
        tracing::warn!("{whose} back-off panicked and is passed over: {panic}");
    }
    decided.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panics(_: u32, _: &JobError) -> Duration {
        panic!("no idea")
    }

    #[test]
    fn the_job_decides_before_the_server_and_a_panic_passes_it_on() {
        let s = Duration::from_secs;
        let server = || {
            Some(ServerBackoff::new(|retried, _, task| {
                Duration::from_secs(u64::from(retried) + task.r#type.len() as u64)
            }))
        };
        let never = || Some(ServerBackoff::new(|_, error, _| panic!("{error}")));
        let table = [
            (None, None, None),
            (Some(Backoff::linear(s(10))), None, Some(s(40))),
            (Some(Backoff::linear(s(10))), server(), Some(s(40))),
            (None, server(), Some(s(7))),
            (Some(Backoff::by(panics)), server(), Some(s(7))),
            (Some(Backoff::by(panics)), None, None),
            (Some(Backoff::by(panics)), never(), None),
            (None, Some(ServerBackoff::new(|_, _, _| Duration::MAX)), Some(LONGEST_RETRY_DELAY)),
        ];
        for (job, server, expected) in table {
            let case = format!("{job:?} {server:?}");
            let message = Arc::new(TaskMessage { r#type: "mail".into(), retried: 3, ..TaskMessage::default() });
            assert_eq!(RetryDelay { job, server, message }.after(&JobError::fail("why")), expected, "{case}");
        }
    }
}
