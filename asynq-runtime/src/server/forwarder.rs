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
    let mut more = true;
    loop {
        match turn(&hub, &mut alarms, more).await {
            Ok(there_is) => {
                trouble.over();
                more = there_is;
            }
            Err(error) => {
                more = true;
                tokio::time::sleep(trouble.met(&error)).await;
            }
        }
    }
}

/// Moves a slice of what is due, of all queues in turns; with `more` at once, otherwise as soon as something is. Returns
/// whether more may be due.
async fn turn(hub: &Hub, alarms: &mut FalseAlarms, more: bool) -> Result<bool, BrokerError> {
    let queues = hub.queues.now();
    let since = Instant::now();
    let forwarded = if more {
        hub.answer(hub.broker.forward(queues.names())).await?
    } else {
        tokio::select! {
            forwarded = hub.news(hub.broker.wait_and_forward(queues.names(), SAFETY_NET)) => forwarded?,
            () = hub.queues.changed(&queues) => return Ok(true),
        }
    };
    if forwarded.moved > 0 {
        alarms.fruitful();
        hub.signals.forwarded.ring();
    } else if !more {
        tokio::time::sleep(alarms.fruitless(since.elapsed())).await;
    }
    Ok(forwarded.more)
}
