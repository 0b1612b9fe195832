//! Waits for the end of a task by the clock of a [`TestApp`].

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::TestApp;
use crate::{
    client::{Enqueued, Outcome, Value},
    clock::later,
    job::{BoxFuture, IntoSpan, Job, ReadResult},
    task::{TaskInfo, TaskState},
};

impl TestApp {
    /// Runs due tasks until `task` has ended, at most for `limit` on this application's clock, which advances to the next due
    /// time or tick of a schedule whenever nothing is due, and while tasks wait in groups that are aggregated here, by a tenth of the
    /// time in which a group becomes ripe. A task that fails twice and then succeeds therefore ends without real time passing.
    ///
    /// Jobs run as in [`drain`](Self::drain). A job that waits for another task by [`Enqueued::wait`] waits in real time, and in
    /// vain, because tasks run one after the other.
    ///
    /// # Panics
    ///
    /// As [`drain`](Self::drain); also if `limit` is not a length of time, or the result is not one of `J`.
    pub fn wait<'a, J: Job>(&'a self, task: &'a Enqueued<J>, limit: impl IntoSpan) -> BoxFuture<'a, Outcome<Value<J>>>
    where
        Value<J>: ReadResult,
    {
        let limit = limit.into_span().unwrap_or_else(|error| panic!("{error}"));
        let end = later(self.now(), limit);
        Box::pin(async move {
            loop {
                self.drain().await;
                let outcome = task.wait(Duration::ZERO).await.unwrap_or_else(|error| panic!("{error}"));
                let now = self.now();
                let worker = self.worker().await;
                let next = next_due(&self.tasks().await, now, |task| worker.next_look(task));
                if outcome.has_ended() || now >= end {
                    return outcome;
                }
                let next = next.into_iter().chain(self.next_tick().await).min();
                let step = next.map_or(end, |next| next.min(end)) - now;
                self.advance(step.to_std().unwrap_or_default()).await;
            }
        })
    }
}

/// Returns when a task may be due next; `None` if no task waits for a time.
fn next_due(
    tasks: &[TaskInfo],
    now: DateTime<Utc>,
    next_look: impl Fn(&TaskInfo) -> Option<Duration>,
) -> Option<DateTime<Utc>> {
    let due = |task: &TaskInfo| match task.state {
        TaskState::Scheduled | TaskState::Retry => task.next_process_at,
        TaskState::Aggregating => next_look(task).map(|pause| now + pause),
        _ => None,
    };
    tasks.iter().filter_map(due).filter(|due| *due > now).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::TaskMessage;

    #[test]
    fn a_task_in_a_group_is_looked_for_only_where_it_is_aggregated() {
        let now = DateTime::UNIX_EPOCH;
        let later = now + Duration::from_secs(3_600);
        let task = |state| TaskInfo::from_message(&TaskMessage::default(), state);
        let grouped = task(TaskState::Aggregating);
        let mut scheduled = task(TaskState::Scheduled);
        scheduled.next_process_at = Some(later);
        let tasks = [grouped.clone(), scheduled];
        let pause = Duration::from_secs(6);
        assert_eq!(next_due(&tasks, now, |_| Some(pause)), Some(now + pause));
        assert_eq!(next_due(&tasks, now, |_| None), Some(later));
        assert_eq!(next_due(&[grouped], now, |_| None), None, "the wait goes on at its limit");
    }
}
