//! Moves scheduled and retry tasks whose time has come to pending; retry tasks go before or behind the tasks that wait.
//!
//! The forwarder sleeps until the next task is due or the broker notifies. Without a forwarder tasks are late, but never lost.
//! Several servers may forward at once, because the broker moves each task once.

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
    let mut wakeups = SpuriousWakeups::default();
    loop {
        match pass(&context, &mut wakeups).await {
            Ok(()) => retry_backoff.on_success(),
            Err(error) => tokio::time::sleep(retry_backoff.on_error(&error)).await,
        }
    }
}

/// Waits until tasks are due, and moves a slice of them from each queue. The next pass moves the rest at once.
async fn pass(context: &ServerContext, wakeups: &mut SpuriousWakeups) -> Result<(), BrokerError> {
    let queues = context.queues.now();
    let since = Instant::now();
    let forwarded = tokio::select! {
        forwarded = context.notification(context.broker.wait_and_forward(queues.names(), context.config.retries, SAFETY_NET)) => forwarded?,
        () = context.queues.changed(&queues) => return Ok(()),
    };
    if forwarded.moved > 0 {
        wakeups.on_work();
        context.signals.forwarded.notify();
    } else {
        tokio::time::sleep(wakeups.on_nothing(since.elapsed())).await;
    }
    Ok(())
}
