//! Extends the leases of all that is in hand, running or waiting to be settled, and the unique locks that ask for it.
//!
//! Tasks of a dequeue whose answer did not arrive, because a job blocks the thread or the connection failed, return to their
//! queues before their leases end. They never began, so no crash is counted.
//!
//! An answer other than ok means that somebody else has the task: its job is stopped at once. No answer means nothing:
//! a lease that lapsed while nobody took the task is still ours.

use std::sync::{Arc, atomic::Ordering};

use tokio::time::timeout;

use super::{
    config::SLICE,
    hub::{Hub, no_answer},
    trouble::Trouble,
};
use crate::broker::{BrokerError, Settled};

/// Extends leases until it is dropped.
pub(crate) async fn run(hub: Arc<Hub>) {
    let lease = hub.broker.lease();
    let mut trouble = Trouble::of("lease", lease / 10);
    let mut pause = lease / 3;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // Tasks that were on their way here for long have less than a lease left.
            () = hub.extend_now.notified() => {}
        }
        let ended = turn(&hub).await;
        hub.extends.store(ended.is_ok(), Ordering::Release);
        pause = match ended {
            Ok(()) => {
                trouble.over();
                lease / 3
            }
            Err(error) if hub.has_closed(&error) => return,
            Err(error) => trouble.met(&error),
        };
    }
}

/// Extends everything once.
async fn turn(hub: &Hub) -> Result<(), BrokerError> {
    // A call that takes longer is given up while there is time for another.
    let limit = hub.broker.lease() / 3;
    for slice in hub.runs.keys().chunks(SLICE) {
        let answers = timeout(limit, hub.broker.extend(slice)).await.unwrap_or_else(|_| Err(no_answer()))?;
        for (key, answer) in slice.iter().zip(answers) {
            if answer != Settled::Ok && hub.runs.lose(key) {
                tracing::warn!(id = %key.id, queue = %key.queue, "the task is not ours any more ({answer:?}); its run is stopped");
                hub.signals.lost.ring();
                crate::metrics::lease_lost();
            }
        }
    }
    for slice in hub.runs.held_locks().chunks(SLICE) {
        timeout(limit, hub.broker.extend_locks(slice)).await.unwrap_or_else(|_| Err(no_answer()))?;
    }
    // Late enough for an answer that is only slow, early enough for the shortest lease.
    let released = hub.release_unanswered(hub.broker.lease() / 10);
    timeout(limit, released).await.unwrap_or_else(|_| Err(no_answer()))?;
    hub.signals.extended.ring();
    Ok(())
}
