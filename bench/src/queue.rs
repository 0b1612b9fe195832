//! The queues that everything runs in: filled before a run, and checked after it.

use std::time::Duration;

use asynq_runtime::{
    inspector::Force,
    job::{BoxFuture, IntoTask},
    prelude::*,
    server::{Running, ServerBuilder},
};
use tokio::time::timeout;

use crate::{
    order::Order,
    task::{PATIENCE, task},
};

/// The queue of runs with a single one.
pub(crate) const QUEUE: &str = "bench";
/// Tasks and bytes per call before a measurement.
const FILL: u64 = 1_000;
const FILL_BYTES: u64 = 4_000_000;
/// More tasks than any run archives.
const MANY: usize = 100_000_000;
/// No scheduled task is due before this time.
const FAR_AWAY: Duration = Duration::from_secs(30 * 86_400);

/// The tasks of all queues of an order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueCounts {
    pub(crate) pending: u64,
    pub(crate) scheduled: u64,
    pub(crate) archived: u64,
    /// Tasks in any other state.
    pub(crate) others: u64,
    /// Runs that ended since the beginning.
    pub(crate) processed: u64,
    /// Runs that failed since the beginning.
    pub(crate) failed: u64,
}

/// Returns the name of the queue that task `number` goes to.
pub(crate) fn name(order: &Order, number: u64) -> String {
    match order.queues {
        Some(queues) if queues > 1 => format!("{QUEUE}-{}", number % queues),
        _ => QUEUE.to_owned(),
    }
}

/// Returns the names of all queues.
pub(crate) fn names(order: &Order) -> impl Iterator<Item = String> {
    (0..order.queues.unwrap_or(1)).map(|number| name(order, number))
}

/// Returns a worker that serves the queues, for one job; its handlers report to `state`.
pub(crate) fn worker<J: Job>(order: &Order, state: impl Send + Sync + 'static) -> ServerBuilder {
    let server = Server::builder(&order.url).queues(names(order).map(|name| (name, 1)));
    // Archived tasks are never trimmed.
    server.archive("*", MANY, FAR_AWAY).concurrency(order.concurrency).only([J::NAME]).state(state)
}

/// Enqueues the tasks of the order.
///
/// # Errors
///
/// A task was refused.
pub(crate) async fn fill(client: &Client, order: &Order) -> Result<(), BoxError> {
    let at_once = (FILL_BYTES / order.payload_bytes as u64).clamp(1, FILL);
    for first in (0..order.waiting()).step_by(at_once as usize) {
        let numbers = first..order.waiting().min(first + at_once);
        let tasks = numbers.map(|number| task(number, order.payload_bytes).into_job().queue(name(order, number)));
        store(client, tasks).await?;
    }
    Ok(())
}

/// Enqueues tasks by one call; every one of them must be taken.
pub(crate) fn store<T: IntoTask>(
    client: &Client,
    tasks: impl IntoIterator<Item = T>,
) -> BoxFuture<'static, Result<(), BoxError>> {
    let stored = client.enqueue_many(tasks);
    Box::pin(async move {
        for outcome in stored.await? {
            outcome?;
        }
        Ok(())
    })
}

/// Stores tasks that no run touches: `n` scheduled ones, and on SQLite as many that are archived.
///
/// # Errors
///
/// A task was refused.
pub(crate) async fn crowd(client: &Client, order: &Order, n: u64) -> Result<(), BoxError> {
    let schedule = async || -> Result<(), BoxError> {
        for first in (0..n).step_by(FILL as usize) {
            let tasks = (first..n.min(first + FILL)).map(|number| {
                let later = FAR_AWAY + Duration::from_secs(number % 86_400);
                task(number, order.payload_bytes).into_job().process_in(later)
            });
            store(client, tasks).await?;
        }
        Ok(())
    };
    schedule().await?;
    if !order.on_redis() {
        client.inspector().archive_all(QUEUE, TaskState::Scheduled).beyond_archive().await?;
        schedule().await?;
    }
    Ok(())
}

/// Counts the tasks of the queues.
///
/// # Errors
///
/// The broker failed.
pub(crate) async fn counts(client: &Client, order: &Order) -> Result<QueueCounts, BoxError> {
    let mut counts = QueueCounts::default();
    for name in names(order) {
        let stats = client.broker().queue_stats(&name.parse()?).await?;
        counts.pending += stats.pending;
        counts.scheduled += stats.scheduled;
        counts.archived += stats.archived;
        counts.others += stats.size - stats.pending - stats.scheduled - stats.archived;
        counts.processed += stats.processed_total;
        counts.failed += stats.failed_total;
    }
    Ok(counts)
}

/// Waits until the broker has taken the outcomes of `n` tasks, as the worker counts them. Questions to thousands of queues would
/// be measured, too.
///
/// # Errors
///
/// The outcomes are not there after [`PATIENCE`].
pub(crate) async fn acknowledged(running: &Running, n: u64) -> Result<(), BoxError> {
    let all = timeout(PATIENCE, running.signals().settled.reached(n)).await;
    all.map_err(|_| "the last tasks were not acknowledged".into())
}

/// Checks that the queues hold `pending` waiting tasks, those that are always there, and no other.
///
/// # Errors
///
/// The queues hold other tasks; the error has the counts.
pub(crate) async fn expect(client: &Client, order: &Order, pending: u64) -> Result<(), BoxError> {
    let counts = counts(client, order).await?;
    let present = order.present.unwrap_or(0);
    let archived = if order.on_redis() { 0 } else { present };
    let expected =
        QueueCounts { pending, scheduled: present, archived, others: 0, processed: counts.processed, failed: 0 };
    if counts == expected {
        Ok(())
    } else {
        Err(format!("expected in the queue: {expected:?}, found: {counts:?}").into())
    }
}

/// Deletes the waiting tasks.
///
/// # Errors
///
/// The broker failed.
pub(crate) async fn clear(client: &Client) -> Result<(), BoxError> {
    client.inspector().delete_all(QUEUE, TaskState::Pending).await?;
    Ok(())
}

/// Deletes the queues with all their tasks. A run that failed early has not made all of them.
///
/// # Errors
///
/// The broker failed, or tasks of a run that was ended by force count as running.
pub(crate) async fn forget(client: &Client, order: &Order) -> Result<(), BoxError> {
    for name in names(order) {
        match client.inspector().delete_queue(name, Force::Yes).await {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}
