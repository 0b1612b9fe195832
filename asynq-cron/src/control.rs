//! Pauses, resumes, runs and forgets periodic entries, from any program.

use std::{cmp::Reverse, time::Duration};

use asynq_runtime::{
    Client,
    broker::{Broker, BrokerError, BrokerErrorKind, EntryId, EntryState, NewTask, Page},
    task::{QueueName, SchedulerEnqueueEvent, SchedulerEntry, TaskId, Timestamp},
};
use chrono::{DateTime, Utc};
use tokio::time::timeout;

use crate::{Periodic, PeriodicError, Tick};

/// The longest time for which a task that is run now waits for the shape of its arguments to be kept.
const SHAPE_TIMEOUT: Duration = Duration::from_secs(5);

/// The periodic entries on a broker, of all programs.
///
/// ```no_run
/// use asynq_cron::{EntryId, Schedule};
/// use asynq_runtime::{prelude::*, task::QueueName};
///
/// # async fn hold(client: &Client) -> Result<(), BoxError> {
/// let schedule = Schedule::new(client);
/// // The entry of `#[periodic(.., queue = "low")] async fn report`: the job has one entry, so the key is empty.
/// schedule.pause(&QueueName::new("low")?, &EntryId::of("report", "")).await?;
/// // The entries of a queue, whatever their jobs and keys are.
/// for entry in schedule.entries().await? {
///     let queue = Schedule::queue_of(&entry);
///     if queue.as_str() == "reports" {
///         schedule.pause(&queue, &EntryId::from_wire(&entry.id)).await?;
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Schedule {
    pub(crate) client: Client,
}

impl Schedule {
    /// Makes the schedule on the broker of a client.
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone() }
    }

    /// Returns the entries of all schedulers that live, those of this crate and Go's, by type, id and queue. Replicas of a scheduler
    /// list the same entries: each is returned once, with the latest tick. An entry that two versions of a program list in different
    /// queues is returned once for each queue.
    ///
    /// # Errors
    ///
    /// The broker failed, or a part of it that has a list is away.
    pub async fn entries(&self) -> Result<Vec<SchedulerEntry>, BrokerError> {
        self.client.broker().scheduler_entries().await.map(each_once)
    }

    /// Returns the broker's state of an entry; `None` if the broker does not know it.
    ///
    /// # Errors
    ///
    /// The broker failed.
    pub async fn entry(&self, queue: &QueueName, entry: &EntryId) -> Result<Option<EntryState>, BrokerError> {
        self.client.broker().entry(queue, entry).await
    }

    /// Returns one page of the enqueues of an entry, the newest first.
    ///
    /// # Errors
    ///
    /// The broker failed.
    pub async fn history(&self, entry: &EntryId, page: Page) -> Result<Vec<SchedulerEnqueueEvent>, BrokerError> {
        self.client.broker().enqueue_history(entry.as_str(), page).await
    }

    /// Stops an entry from firing until it is resumed, across restarts: as long as the broker keeps the entry in this queue, mostly for a
    /// month after a scheduler has last planned it. Its ticks during the pause are not made up for. Returns whether that changed
    /// anything: `false` for an entry that is paused already or that no scheduler has planned.
    ///
    /// # Errors
    ///
    /// The broker failed; the call may be repeated.
    pub async fn pause(&self, queue: &QueueName, entry: &EntryId) -> Result<bool, BrokerError> {
        self.client.broker().pause_entry(queue, entry, true).await
    }

    /// Lets a paused entry go on with its next tick; returns whether the entry was paused.
    ///
    /// # Errors
    ///
    /// The broker failed; the call may be repeated.
    pub async fn resume(&self, queue: &QueueName, entry: &EntryId) -> Result<bool, BrokerError> {
        self.client.broker().pause_entry(queue, entry, false).await
    }

    /// Deletes the broker's state of an entry: its last tick, its pause and its history. A paused entry fires again, and `overlap` does
    /// not see the task of the last tick. A scheduler that still plans the entry plans it as a new one: with its next tick, or before
    /// that when the scheduler asks for it, which it does for one entry in each third of a lease.
    ///
    /// # Errors
    ///
    /// The broker failed; the call may be repeated.
    pub async fn forget(&self, queue: &QueueName, entry: &EntryId) -> Result<(), BrokerError> {
        self.client.broker().forget_entry(queue, entry).await
    }

    /// Enqueues the task of an entry once, now, beside its schedule and whatever its overlap policy; returns the task's id. As with
    /// its ticks, the layers and the payload limit of the client do not apply.
    ///
    /// # Errors
    ///
    /// The entry is [invalid](Periodic::invalid), the task was refused, or the broker failed.
    pub async fn run_now(&self, entry: &Periodic) -> Result<TaskId, PeriodicError> {
        entry.check_row()?;
        let now = self.client.broker().now();
        let task = entry.bind(Tick::new(now), now)?;
        let id = self.enqueue_beside(entry.id(), task, now).await?;
        // Another master of a cluster may store the shape and not answer. The task is enqueued all the same.
        if timeout(SHAPE_TIMEOUT, self.client.keep_shape(&entry.task)).await.is_err() {
            log!(debug, "the shape of the arguments of {entry} is kept later");
        }
        Ok(id)
    }

    /// Enqueues a task of an entry beside its schedule, and adds the enqueue to the history of the entry.
    pub(crate) async fn enqueue_beside(
        &self,
        entry: &EntryId,
        task: NewTask,
        now: DateTime<Utc>,
    ) -> Result<TaskId, PeriodicError> {
        let (id, queue) = (task.id.clone(), task.queue.to_string());
        let unanswered =
            || BrokerError::new(BrokerErrorKind::Unexpected, "the broker gave no answer for the task").into();
        let placed = self.client.broker().enqueue(vec![task]).await.pop().unwrap_or_else(|| Err(unanswered()));
        placed.map_err(|source| PeriodicError::Refused { id: id.to_string(), queue, source })?;
        record_enqueue(&**self.client.broker(), entry, &id, now).await;
        Ok(id)
    }
}

/// Removes duplicates. The queue is not part of an id, and the broker keeps a state of the entry for each queue.
fn each_once(mut listed: Vec<SchedulerEntry>) -> Vec<SchedulerEntry> {
    let key = |entry: &SchedulerEntry| (entry.task_type.clone(), entry.id.clone(), Schedule::queue_of(entry));
    let last = |entry: &SchedulerEntry| Reverse(entry.prev_enqueue_time.and_then(Timestamp::to_datetime));
    listed.sort_by_cached_key(|entry| (key(entry), last(entry)));
    listed.dedup_by(|a, b| key(a) == key(b));
    listed
}

/// Notes in the history of an entry that it enqueued a task.
pub(crate) async fn record_enqueue(broker: &dyn Broker, entry: &EntryId, task: &TaskId, now: DateTime<Utc>) {
    let event = SchedulerEnqueueEvent { task_id: task.to_string(), enqueue_time: Some(now.into()) };
    if let Err(error) = broker.record_enqueue(entry.as_str(), &event).await {
        log!(debug, "an enqueue is missing in the history of {entry}: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_replicas_list_is_there_once_with_its_latest_tick() {
        let entry = |task_type: &str, id: &str, last: Option<i64>| SchedulerEntry {
            id: id.into(),
            task_type: task_type.into(),
            prev_enqueue_time: last.and_then(|last| DateTime::from_timestamp(last, 0)).map(Timestamp::from),
            ..SchedulerEntry::default()
        };
        let listed = vec![
            entry("report", "a", Some(1)),
            entry("report", "a", Some(3)),
            entry("mail", "a", None),
            entry("report", "a", Some(2)),
            entry("mail", "a", Some(0)),
            entry("mail", "b", None),
        ];
        let expected = [entry("mail", "a", Some(0)), entry("mail", "b", None), entry("report", "a", Some(3))];
        assert_eq!(each_once(listed), expected);
    }

    #[test]
    fn an_entry_that_versions_list_in_different_queues_is_there_once_for_each_queue() {
        let entry = |queue: &str, last: i64| SchedulerEntry {
            id: "a".into(),
            task_type: "report".into(),
            enqueue_options: vec!["MaxRetry(3)".into(), format!("Queue(\"{queue}\")")],
            prev_enqueue_time: DateTime::from_timestamp(last, 0).map(Timestamp::from),
            ..SchedulerEntry::default()
        };
        let listed = vec![entry("old", 1), entry("new", 3), entry("old", 2), entry("new", 2)];
        assert_eq!(each_once(listed), [entry("new", 3), entry("old", 2)]);
    }
}
