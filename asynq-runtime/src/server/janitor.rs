//! Deletes completed tasks past their retention, trims the archive, releases abandoned sets to their groups, and repairs
//! traces of crashes.
//!
//! It works in slices with breaks between them: housekeeping never delays tasks, and an outcome never fails because of it.

use std::{sync::Arc, time::Duration};

use super::{
    archives::ArchiveLimits,
    config::{JANITOR, SLICE},
    retry_backoff::RetryBackoff,
    server_context::ServerContext,
};
use crate::{
    broker::{ArchivePolicy, BrokerError, Swept},
    job::DueShapes,
    task::QueueName,
};

/// Break between two slices of one pass.
const BREAK: Duration = Duration::from_millis(5);
/// Every so many passes the janitor sweeps: about once a minute.
const SWEEP_EVERY: u64 = 8;

/// Cleans until it is dropped.
pub(crate) async fn run(context: Arc<ServerContext>) {
    let mut retry_backoff = RetryBackoff::new("janitor", JANITOR);
    for pass in 0u64.. {
        let cleaned = clean(&context, pass % SWEEP_EVERY == 0).await;
        if cleaned.is_ok() {
            context.signals.cleaned.notify();
        }
        tokio::time::sleep(retry_backoff.after(cleaned.map(|()| JANITOR))).await;
    }
}

/// Cleans once every queue that the broker finds worth cleaning.
async fn clean(context: &ServerContext, sweeps: bool) -> Result<(), BrokerError> {
    let queues = context.queues.now();
    let policy = |queue: &QueueName| {
        let ArchiveLimits { size, age } = context.config.archives.limits(queue.as_str());
        ArchivePolicy { queue: queue.clone(), max_age: age, max_size: size }
    };
    let policies: Vec<ArchivePolicy> = queues.names().iter().map(policy).collect();
    // A queue that cannot be cleaned, such as one on a part of a cluster that is away, keeps no other from it.
    let mut failed = Ok(());
    for queue in &context.answer(context.broker.worth_cleaning(&policies)).await? {
        failed = failed.and(clean_queue(context, queue).await);
    }
    if sweeps {
        failed = failed.and(keep_shapes(context).await);
        for queue in &context.answer(context.broker.worth_sweeping(queues.names())).await? {
            failed = failed.and(sweep(context, queue).await);
            // Without breaks a worker that starts on ten thousand queues would send as many calls one behind the other, beside its tasks.
            tokio::time::sleep(BREAK).await;
        }
        let groups = context.answer(context.broker.restore_groups(queues.names())).await?;
        if groups > 0 {
            log!(warn, groups, "repaired groups that were missing from the set of groups");
        }
    }
    failed
}

/// Cleans one queue. A task that cannot be deleted, because its page of the file is damaged, keeps no set from its group.
async fn clean_queue(context: &ServerContext, queue: &QueueName) -> Result<(), BrokerError> {
    let mut cleaned = in_slices(context, &mut 0, || context.broker.reclaim_sets(queue)).await;
    if !is_away(&cleaned) {
        cleaned = cleaned.and(in_slices(context, &mut 0, || context.broker.delete_expired(queue, SLICE)).await);
    }
    if !is_away(&cleaned) {
        cleaned = cleaned.and(trim(context, queue).await);
    }
    cleaned
}

fn is_away(cleaned: &Result<(), BrokerError>) -> bool {
    cleaned.as_ref().is_err_and(BrokerError::is_unavailable)
}

/// Repeats a call of the broker, with breaks, until it has treated less than a slice; adds up how many it has `treated`.
async fn in_slices<C: Future<Output = Result<usize, BrokerError>>>(
    context: &ServerContext,
    treated: &mut usize,
    call: impl Fn() -> C,
) -> Result<(), BrokerError> {
    loop {
        let slice = context.answer(call()).await?;
        *treated += slice;
        if slice < SLICE {
            return Ok(());
        }
        tokio::time::sleep(BREAK).await;
    }
}

/// Keeps the shapes of the jobs that run here. Clients of this version keep those of the tasks that they enqueue, but a task
/// may come from elsewhere, such as a schedule or a transaction.
async fn keep_shapes(context: &ServerContext) -> Result<(), BrokerError> {
    let jobs = context.executor.dispatcher.registry.iter();
    let due = DueShapes::among(&*context.broker, jobs.map(|job| job.shape));
    if due.is_empty() { Ok(()) } else { context.answers(due.keep()).await }
}

/// Trims the archive: deletes tasks past the age limit silently, and warns of those deleted past the size limit. An old task that
/// cannot be deleted, because its page of the file is damaged, does not keep the archive above its size.
async fn trim(context: &ServerContext, queue: &QueueName) -> Result<(), BrokerError> {
    let ArchiveLimits { size, age } = context.config.archives.limits(queue.as_str());
    let aged = in_slices(context, &mut 0, || context.broker.trim_archive(queue, age, usize::MAX, SLICE)).await;
    if is_away(&aged) {
        return aged;
    }
    let mut dropped = 0;
    let trimmed = in_slices(context, &mut dropped, || context.broker.trim_archive(queue, age, size, SLICE)).await;
    if dropped > 0 {
        let tasks = u64::try_from(dropped).unwrap_or(u64::MAX);
        crate::metrics::archive_dropped(queue.as_str(), tasks);
        context.signals.trimmed.notify_by(tasks);
        log!(
            warn,
            %queue, dropped, size,
            "the archive was full: the oldest tasks in it were deleted; `.archive(..)` makes it larger"
        );
    }
    aged.and(trimmed)
}

async fn sweep(context: &ServerContext, queue: &QueueName) -> Result<(), BrokerError> {
    let swept = context.answer(context.broker.sweep(queue)).await?;
    if swept != Swept::default() {
        let Swept { leases_restored: leases, ghosts_removed: ghosts } = swept;
        log!(warn, %queue, leases, ghosts, "repaired active tasks without a lease and ids without a task");
    }
    Ok(())
}
