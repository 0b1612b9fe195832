//! Extends the leases of all that is in hand, running or waiting to be settled, and the unique locks that ask for it.
//!
//! Tasks of a dequeue whose answer did not arrive, because a job blocks the thread or the connection failed, return to their
//! queues before their leases end. They never began, so no crash is counted.
//!
//! An answer other than ok means that somebody else has the task: its job is stopped at once. No answer means nothing:
//! a lease that lapsed while nobody took the task is still ours.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::timeout;

use super::{
    config::SLICE,
    retry_backoff::RetryBackoff,
    server_context::{ServerContext, no_answer},
};
use crate::broker::{BrokerError, RunKey, Settled};

/// Extends leases until it is dropped.
pub(crate) async fn run(context: Arc<ServerContext>) {
    let lease = context.broker.lease();
    let mut retry_backoff = RetryBackoff::new("lease", lease / 10);
    let mut pause = lease / 3;
    loop {
        tokio::time::sleep(pause).await;
        let ended = turn(&context).await;
        context.extends.store(ended.is_ok(), Ordering::Release);
        pause = match ended {
            Ok(()) => {
                retry_backoff.on_success();
                lease / 3
            }
            Err(error) if context.has_closed(&error) => return,
            Err(error) => retry_backoff.on_error(&error),
        };
    }
}

/// Extends the leases of these runs, and stops those that are not ours any more, or have them not start.
pub(super) async fn extend(context: &ServerContext, keys: &[RunKey]) -> Result<(), BrokerError> {
    let limit = limit(context);
    for slice in keys.chunks(SLICE) {
        let answers = timeout(limit, context.broker.extend(slice)).await.unwrap_or_else(|_| Err(no_answer()))?;
        for (key, answer) in slice.iter().zip(answers) {
            if answer != Settled::Ok && context.runs.lose(key) {
                tracing::warn!(id = %key.id, queue = %key.queue, "the task is not ours any more ({answer:?}); its run is stopped");
                context.signals.lost.notify();
                crate::metrics::lease_lost();
            }
        }
    }
    Ok(())
}

/// A call that takes longer is given up while there is time for another.
fn limit(context: &ServerContext) -> Duration {
    context.broker.lease() / 3
}

/// Extends everything once.
async fn turn(context: &ServerContext) -> Result<(), BrokerError> {
    extend(context, &context.runs.keys()).await?;
    let limit = limit(context);
    for slice in context.runs.held_locks().chunks(SLICE) {
        timeout(limit, context.broker.extend_locks(slice)).await.unwrap_or_else(|_| Err(no_answer()))?;
    }
    // Late enough for an answer that is only slow, early enough for the shortest lease.
    let released = context.release_unanswered(context.broker.lease() / 10);
    timeout(limit, released).await.unwrap_or_else(|_| Err(no_answer()))?;
    context.signals.extended.notify();
    Ok(())
}
