//! Requeues the tasks of crashed workers at the heads of their queues; the first pass comes at the start.
//!
//! The next pass comes when the first lease that the last pass saw has expired, and after a sixth of a lease at most. A crash is not
//! a failure: no retry is spent.
//!
//! A server that can extend none of its own leases does not recover those of others: the cause is then the broker or the network.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{retry_backoff::RetryBackoff, server_context::ServerContext};
use crate::broker::BrokerError;

/// Bounds of the pause while a lease may have expired. The task of a crashed worker starts again this much after its lease has
/// expired.
const SOONEST: Duration = Duration::from_millis(250);
const LATEST: Duration = Duration::from_secs(1);
/// The lease divided by this is the longest pause while no lease can have expired: another server's leases may be shorter.
const QUIET: u32 = 6;

/// Recovers until it is dropped.
pub(crate) async fn run(context: Arc<ServerContext>) {
    let mut retry_backoff = RetryBackoff::new("recoverer", 2 * LATEST);
    let lease = context.broker.lease();
    let between = (lease / 20).clamp(SOONEST, LATEST);
    let longest = (lease / QUIET).max(between);
    loop {
        // A random part spreads many servers out.
        let spread = between.mul_f64(0.2 * fastrand::f64());
        let pause = pass(&context).await.map(|quiet| quiet.min(longest).max(between.mul_f64(0.8)) + spread);
        tokio::time::sleep(retry_backoff.after(pause)).await;
    }
}

/// Recovers all tasks whose leases have expired. Returns how long no other lease can expire.
async fn pass(context: &ServerContext) -> Result<Duration, BrokerError> {
    let queues = context.queues.now();
    let quiet = context.answer(context.broker.until_lapse(queues.names())).await?;
    while quiet.is_zero() && context.extends.load(Ordering::Acquire) {
        let recovered = context.answer(context.broker.recover(queues.names())).await?;
        for (queue, id) in &recovered.tasks {
            log!(warn, %queue, %id, "no worker extends its lease; the task was requeued");
        }
        if !recovered.more {
            break;
        }
    }
    Ok(quiet)
}
