//! Moves scheduled and retry tasks whose time has come to pending.
//!
//! It sleeps until the next task is due or the broker notifies. Losing it delays tasks but never loses them; several
//! servers may do it at once, because the broker moves each task once.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    config::SAFETY_NET,
    retry_backoff::{RetryBackoff, SpuriousWakeups},
    server_context::ServerContext,
};
use crate::broker::BrokerError;

/// Longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Forwards until it is dropped.
pub(crate) async fn run(context: Arc<ServerContext>) {
    let mut retry_backoff = RetryBackoff::new("forwarder", LONGEST_PAUSE);
    let mut wakeups = SpuriousWakeups::new();
    let mut more = true;
    loop {
        match turn(&context, &mut wakeups, more).await {
            Ok(there_is) => {
                retry_backoff.on_success();
                more = there_is;
            }
            Err(error) => {
                more = true;
                tokio::time::sleep(retry_backoff.on_error(&error)).await;
            }
        }
    }
}

/// Moves a slice of what is due, of all queues in turns; with `more` at once, otherwise as soon as something is. Returns
/// whether more may be due.
async fn turn(context: &ServerContext, wakeups: &mut SpuriousWakeups, more: bool) -> Result<bool, BrokerError> {
    let queues = context.queues.now();
    let since = Instant::now();
    let forwarded = if more {
        context.answer(context.broker.forward(queues.names())).await?
    } else {
        tokio::select! {
            forwarded = context.news(context.broker.wait_and_forward(queues.names(), SAFETY_NET)) => forwarded?,
            () = context.queues.changed(&queues) => return Ok(true),
        }
    };
    if forwarded.moved > 0 {
        wakeups.on_work();
        context.signals.forwarded.notify();
    } else if !more {
        tokio::time::sleep(wakeups.on_nothing(since.elapsed())).await;
    }
    Ok(forwarded.more)
}
