//! Puts the tasks of workers that died back to the head of their queues, first of all at the start.
//!
//! It looks again when the first of the leases that it saw has passed. A crash is not a failure: no retry is spent.
//!
//! A server that cannot extend its own leases does not judge those of others: the cause is then the broker, or the way to it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{dice::Dice, hub::Hub, trouble::Trouble};
use crate::broker::BrokerError;

/// Soonest and latest turn while a lease may have passed. A dead worker's task starts again this much after the broker can
/// tell that it is dead.
const SOONEST: Duration = Duration::from_millis(250);
const LATEST: Duration = Duration::from_secs(1);
/// Longest pause while none can have passed, as a part of a lease: another server's leases may be shorter.
const QUIET: u32 = 6;

/// Recovers until it is dropped.
pub(crate) async fn run(hub: Arc<Hub>) {
    let mut dice = Dice::new();
    let mut trouble = Trouble::of("recoverer", 2 * LATEST);
    let lease = hub.broker.lease();
    let between = (lease / 20).clamp(SOONEST, LATEST);
    let longest = (lease / QUIET).max(between);
    loop {
        let pause = match turn(&hub).await {
            Ok(quiet) => {
                trouble.over();
                // Many servers spread out.
                let spread = between.mul_f64(0.2 * dice.fraction());
                quiet.min(longest).max(between.mul_f64(0.8)) + spread
            }
            Err(error) => trouble.met(&error),
        };
        tokio::time::sleep(pause).await;
    }
}

/// Recovers all that can be. Returns how long there can be nothing more.
async fn turn(hub: &Hub) -> Result<Duration, BrokerError> {
    let queues = hub.queues.now();
    let quiet = hub.answer(hub.broker.until_lapse(queues.names())).await?;
    while quiet.is_zero() && hub.extends.load(Ordering::Acquire) {
        let recovered = hub.answer(hub.broker.recover(queues.names())).await?;
        for (queue, id) in &recovered.tasks {
            tracing::warn!(%queue, %id, "its worker died; the task is pending again");
        }
        if !recovered.more {
            break;
        }
    }
    hub.signals.recovered.ring();
    Ok(quiet)
}
