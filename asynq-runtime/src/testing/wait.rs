//! Waits for the end of a task by the clock of a [`TestApp`].

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::TestApp;
use crate::{
    client::{Enqueued, Outcome, Value},
    job::{BoxFuture, IntoSpan, Job, ReadResult},
    task::{TaskInfo, TaskState},
};

/// The clock advances by this time while tasks wait in groups that may become ripe, because a group has no due time.
const GROUPS: Duration = Duration::from_secs(1);

impl TestApp {
    /// Runs due tasks until `task` has ended, at most for `limit` on this application's clock, which advances to the next due
    /// time whenever nothing is due. A task that fails twice and then succeeds therefore ends without real time passing.
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
        let end = chrono::TimeDelta::from_std(limit).ok().and_then(|limit| self.now().checked_add_signed(limit));
        let end = end.unwrap_or(DateTime::<Utc>::MAX_UTC);
        Box::pin(async move {
            loop {
                self.drain().await;
                let outcome = task.wait(Duration::ZERO).await.unwrap_or_else(|error| panic!("{error}"));
                let now = self.now();
                let next = next_due(&self.tasks().await, now, self.worker().await.looks_at_groups());
                if outcome.has_ended() || now >= end {
                    return outcome;
                }
                let step = next.map_or(end, |next| next.min(end)) - now;
                self.advance(step.to_std().unwrap_or_default()).await;
            }
        })
    }
}

/// Returns when a task may be due next; `None` if no task waits for a time.
fn next_due(tasks: &[TaskInfo], now: DateTime<Utc>, looks_at_groups: bool) -> Option<DateTime<Utc>> {
    let due = |task: &TaskInfo| match task.state {
        TaskState::Scheduled | TaskState::Retry => task.next_process_at,
        TaskState::Aggregating if looks_at_groups => Some(now + GROUPS),
        _ => None,
    };
    tasks.iter().filter_map(due).filter(|due| *due > now).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::TaskMessage;

    #[test]
    fn a_task_in_a_group_is_looked_for_each_second_only_where_something_aggregates() {
        let now = DateTime::UNIX_EPOCH;
        let later = now + Duration::from_secs(3_600);
        let task = |state| TaskInfo::from_message(&TaskMessage::default(), state);
        let grouped = task(TaskState::Aggregating);
        let mut scheduled = task(TaskState::Scheduled);
        scheduled.next_process_at = Some(later);
        let tasks = [grouped.clone(), scheduled];
        assert_eq!(next_due(&tasks, now, true), Some(now + GROUPS));
        assert_eq!(next_due(&tasks, now, false), Some(later));
        assert_eq!(next_due(&[grouped], now, false), None, "the wait goes on at its limit");
    }
}
