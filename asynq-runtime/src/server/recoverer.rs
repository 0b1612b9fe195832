//! Puts the tasks of workers that died back to the head of their queues, first of all at the start.
//!
//! A crash is no failure: no retry is spent (DECISIONS §5).

use std::{sync::Arc, time::Duration};

use super::{dice::Dice, hub::Hub, trouble::Trouble};
use crate::broker::BrokerError;

/// Soonest and latest turn. A dead worker's task starts again this much after the broker can tell that it is dead.
const SOONEST: Duration = Duration::from_millis(250);
const LATEST: Duration = Duration::from_secs(1);

/// Recovers until it is dropped.
pub(crate) async fn run(hub: Arc<Hub>) {
    let mut dice = Dice::new();
    let mut trouble = Trouble::of("recoverer", 2 * LATEST);
    let between = (hub.broker.lease() / 20).clamp(SOONEST, LATEST);
    loop {
        let pause = match turn(&hub).await {
            Ok(()) => {
                trouble.over();
                // Many servers spread out.
                between.mul_f64(0.8 + 0.2 * dice.fraction())
            }
            Err(error) => trouble.met(&error),
        };
        tokio::time::sleep(pause).await;
    }
}

/// Recovers all that can be.
async fn turn(hub: &Hub) -> Result<(), BrokerError> {
    let queues = hub.queues.now();
    loop {
        let recovered = hub.answer(hub.broker.recover(queues.names())).await?;
        for (queue, id) in &recovered.tasks {
            tracing::warn!(%queue, %id, "its worker died; the task is pending again");
        }
        if !recovered.more {
            break;
        }
    }
    hub.signals.recovered.ring();
    Ok(())
}
