//! Passes cancel requests on to the tasks that run here.

use std::{sync::Arc, time::Duration};

use super::{retry_backoff::RetryBackoff, server_context::ServerContext};
use crate::broker::BrokerError;

/// Longest pause between two subscriptions: a request that is made in it is not heard, such as that of a tick that replaces its
/// predecessor right after an outage.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// Pause after a broker refused to pass cancel requests on.
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
        tokio::time::sleep(pause_after(&error, &mut is_told, &mut retry_backoff)).await;
    }
}

/// Logs the error, a refusal only once (`is_told`), and returns how long to wait before the next attempt.
fn pause_after(error: &BrokerError, is_told: &mut bool, retry_backoff: &mut RetryBackoff) -> Duration {
    // A Redis without RESP3, or without the right to the channel, refuses each attempt.
    let is_refused = !error.is_unavailable();
    let was_told = std::mem::replace(is_told, is_refused);
    if !is_refused {
        return retry_backoff.on_error(error);
    }
    if !was_told {
        log!(warn, "cancel requests are not received: {error}");
    }
    AFTER_REFUSAL
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

#[cfg(test)]
mod tests {
    use asynq_test_support::Log;

    use super::*;
    use crate::broker::BrokerErrorKind::{self, Config, Denied, Unavailable, Unexpected};

    #[test]
    fn a_refusal_of_any_kind_is_logged_once() {
        let (log, mut is_told) = (Log::keep(), false);
        let mut retry_backoff = RetryBackoff::new("test", LONGEST_PAUSE);
        let mut pause = |kind: BrokerErrorKind| {
            pause_after(&BrokerError::new(kind, "refused for a test"), &mut is_told, &mut retry_backoff)
        };
        for (kind, lines) in [(Denied, 1), (Config, 1), (Unexpected, 1), (Unavailable, 1), (Denied, 2)] {
            assert_eq!(pause(kind) == AFTER_REFUSAL, kind != Unavailable, "{kind:?}");
            assert_eq!(log.with("cancel requests are not received").len(), lines, "{kind:?}");
        }
        assert_eq!(log.with("the broker failed").len(), 1, "{log:?}");
    }
}
