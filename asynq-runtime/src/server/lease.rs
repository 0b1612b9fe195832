//! Extends the leases of all tasks that the server holds, and the unique locks that ask for it.
//!
//! Tasks of a dequeue whose answer did not arrive, because a job blocks the thread or the connection failed, return to their
//! queues before their leases end. They never began, so no crash is counted.
//!
//! An answer other than ok means that another server has the task, or that it is gone: its job is stopped at once. Without an
//! answer nothing changes: the server keeps a task with an expired lease as long as no other server has taken it.

use std::{
    slice,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    active_runs::ActiveRun, answer::answer_within, retry_backoff::RetryBackoff, server_context::ServerContext,
};
use crate::broker::{BrokerError, RunKey, Settled};

/// A task has its lease extended before its start if more than the lease divided by this has passed.
const LATE: u32 = 6;

/// Extends leases until it is dropped.
pub(crate) async fn run(context: Arc<ServerContext>) {
    let lease = context.broker.lease();
    let mut retry_backoff = RetryBackoff::new("lease", lease / 10);
    let mut pause = lease / 3;
    loop {
        tokio::time::sleep(pause).await;
        let (is_any_extended, ended) = pass(&context).await;
        context.extends.store(is_any_extended || ended.is_ok(), Ordering::Release);
        pause = retry_backoff.after(ended.map(|()| lease / 3));
    }
}

/// Extends the leases of these runs, and stops those that were lost, or prevents their start. Returns whether any was extended, and
/// the first failure.
///
/// One call takes all runs, and the broker splits it as it needs: where a part of a cluster is unreachable, the rest is extended.
async fn extend(context: &ServerContext, keys: &[RunKey]) -> (bool, Result<(), BrokerError>) {
    let extended = answer_within(limit(context), context.broker.extend(keys)).await;
    let extended = extended.unwrap_or_else(|error| vec![Err(error); keys.len()]);
    let (mut is_any_extended, mut failed) = (false, Ok(()));
    for (key, answer) in keys.iter().zip(extended) {
        match answer {
            Ok(Settled::Ok) => is_any_extended = true,
            Ok(answer) => {
                if context.runs.lose(key) {
                    context.signals.lost.notify();
                    crate::metrics::lease_lost();
                    log!(warn, id = %key.id, queue = %key.queue, "the task is not ours any more ({answer:?}); its run is stopped");
                }
            }
            Err(error) => failed = failed.and(Err(error)),
        }
    }
    (is_any_extended, failed)
}

/// Returns whether the server still has the lease of a task that is about to start. If a good part of the lease has passed, it
/// asks the broker: this process may have been stopped after it asked for the task, and another server may have the task.
/// Without an answer the task is requeued.
pub(super) async fn still_ours(context: &ServerContext, task: &Arc<ActiveRun>) -> bool {
    if !task.is_late(context.broker.now(), context.broker.lease() / LATE) {
        return true;
    }
    let key = &task.attempt.key;
    // Boxed: this is rare, and large beside the state of an ordinary start.
    if let (_, Err(error)) = Box::pin(extend(context, slice::from_ref(key))).await {
        log!(warn, id = %key.id, queue = %key.queue, "the task is requeued before a late start: its lease cannot be extended: {error}");
        context.requeue(slice::from_ref(task));
    }
    task.is_running()
}

/// Returns the longest time of a call: a slower one is given up while there is time for another.
fn limit(context: &ServerContext) -> Duration {
    context.broker.lease() / 3
}

/// Extends all leases and locks once. Returns whether any lease was extended, and the first failure. The three calls are made
/// together: where one part of a cluster is unreachable, each is still made for the rest.
async fn pass(context: &ServerContext) -> (bool, Result<(), BrokerError>) {
    let (limit, keys, locks) = (limit(context), context.runs.keys(), context.runs.held_locks());
    // Late enough for an answer that is only slow, early enough for the shortest lease.
    let released = context.release_unanswered(context.broker.lease() / 10);
    let ((is_any_extended, extended), held, released) = tokio::join!(
        extend(context, &keys),
        answer_within(limit, context.broker.extend_locks(&locks)),
        answer_within(limit, released),
    );
    let ended = extended.and(held.flatten()).and(released.flatten());
    if ended.is_ok() {
        context.signals.extended.notify();
    }
    (is_any_extended, ended)
}
