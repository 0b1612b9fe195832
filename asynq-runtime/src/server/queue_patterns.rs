//! Matches the patterns of a server against the broker's queues again and again.
//!
//! A broker only notifies that its queues may have changed, so each look reads the whole list. A server without patterns
//! never looks.

use std::{sync::Arc, time::Duration};

use super::{config::SAFETY_NET, retry_backoff::RetryBackoff, server_context::ServerContext};
use crate::broker::BrokerError;

/// Longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Keeps the queues of patterns up to date until it is dropped.
pub(crate) async fn run(context: Arc<ServerContext>) {
    let mut retry_backoff = RetryBackoff::new("queue patterns", LONGEST_PAUSE);
    while context.queues.has_patterns() {
        match look(&context).await {
            Ok(()) => retry_backoff.on_success(),
            Err(error) => tokio::time::sleep(retry_backoff.on_error(&error)).await,
        }
    }
}

/// Reads which queues exist, and waits until there may be others.
async fn look(context: &ServerContext) -> Result<(), BrokerError> {
    let known = context.answer(context.broker.queues()).await?;
    if let Some((added, removed)) = context.queues.learn(&known) {
        let served = context.queues.now().len();
        log!(info, added, removed, served, "the queues that match the patterns have changed");
    }
    context.notification(context.broker.wait_for_queues(SAFETY_NET)).await
}
