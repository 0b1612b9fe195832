//! Moves scheduled and retry tasks whose time has come to pending.
//!
//! It sleeps until the next task is due or the broker has news. Losing it delays tasks but never loses them; several
//! servers may do it at once, because the broker moves each task once.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    config::SAFETY_NET,
    hub::Hub,
    trouble::{FalseAlarms, Trouble},
};
use crate::broker::BrokerError;

/// Longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Forwards until it is dropped.
pub(crate) async fn run(hub: Arc<Hub>) {
    let mut trouble = Trouble::of("forwarder", LONGEST_PAUSE);
    let mut alarms = FalseAlarms::new();
    loop {
        match turn(&hub, &mut alarms).await {
            Ok(()) => trouble.over(),
            Err(error) => tokio::time::sleep(trouble.met(&error)).await,
        }
    }
}

/// Moves all that is due, in slices that take turns among the queues, and waits for more.
async fn turn(hub: &Hub, alarms: &mut FalseAlarms) -> Result<(), BrokerError> {
    let queues = hub.queues.now();
    loop {
        let forwarded = hub.answer(hub.broker.forward(queues.names())).await?;
        if forwarded.moved > 0 {
            alarms.fruitful();
            hub.signals.forwarded.ring();
        }
        if !forwarded.more {
            break;
        }
    }
    let since = Instant::now();
    tokio::select! {
        news = hub.news(hub.broker.wait_for_due(queues.names(), SAFETY_NET)) => news?,
        () = hub.queues.changed(&queues) => return Ok(()),
    }
    tokio::time::sleep(alarms.fruitless(since.elapsed())).await;
    Ok(())
}
