//! Passes cancel requests on to the tasks that run here.

use std::{sync::Arc, time::Duration};

use super::{retry_backoff::RetryBackoff, server_context::ServerContext};
use crate::broker::{BrokerError, BrokerErrorKind};

/// Longest pause between two subscriptions: asynq's pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Pause after a broker said that it cannot pass cancel requests on.
const AFTER_REFUSAL: Duration = Duration::from_secs(60);

/// Listens until it is dropped or the server has left; a connection that is lost is opened again.
pub(crate) async fn run(context: Arc<ServerContext>) {
    let mut retry_backoff = RetryBackoff::new("subscriber", LONGEST_PAUSE);
    let mut is_told = false;
    loop {
        let Err(error) = listen(&context, &mut retry_backoff).await;
        if context.has_closed(&error) {
            return;
        }
        // Such a broker, a Redis without RESP3 for one, refuses each attempt.
        if error.kind() == BrokerErrorKind::Config {
            if !std::mem::replace(&mut is_told, true) {
                log!(warn, "cancel requests are not received: {error}");
            }
            tokio::time::sleep(AFTER_REFUSAL).await;
            continue;
        }
        is_told = false;
        tokio::time::sleep(retry_backoff.on_error(&error)).await;
    }
}

async fn listen(
    context: &ServerContext,
    retry_backoff: &mut RetryBackoff,
) -> Result<std::convert::Infallible, BrokerError> {
    let mut requests = context.answer(context.broker.cancellations()).await?;
    retry_backoff.on_success();
    context.signals.subscribed.notify();
    loop {
        let id = requests.next().await?;
        if context.runs.cancel(&id) > 0 {
            log!(info, %id, "a cancel request came for this task");
        }
    }
}
