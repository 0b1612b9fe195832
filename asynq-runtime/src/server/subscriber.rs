//! Passes cancel requests on to the tasks that run here.

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use super::{retry_backoff::RetryBackoff, server_context::ServerContext, stop::Why};
use crate::broker::{BrokerError, Cancellations, RunKey};

/// Longest pause between two subscriptions, by which a request that is made in it comes later. One of a Go program does not come,
/// because nothing keeps it.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// Pause after a broker refused to pass cancel requests on, and between two looks for those that it keeps.
const AFTER_REFUSAL: Duration = Duration::from_secs(60);
/// Longest pause between two looks for kept requests, some of which the broker cannot tell.
const LONGEST_PAUSE_OF_LOOKS: Duration = Duration::from_secs(5);

/// Listens until it is dropped; a connection that is lost is opened again.
pub(crate) async fn run(context: Arc<ServerContext>) {
    let mut retry_backoff = RetryBackoff::new("subscriber", LONGEST_PAUSE);
    let mut is_told = false;
    loop {
        let Err(error) = listen(&context, &mut is_told, &mut retry_backoff).await;
        let pause = pause_after(&error, &mut is_told, &mut retry_backoff);
        if pause == AFTER_REFUSAL {
            // No other request comes to this server. The next look meets the error again, if it lasts.
            let _ = look(&context).await;
        }
        tokio::time::sleep(pause).await;
    }
}

/// Logs that cancel requests come again, where the log says that they do not.
fn received(is_told: &mut bool) {
    if std::mem::take(is_told) {
        log!(info, "cancel requests are received again");
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
        log!(
            warn,
            "cancel requests are not received; those that the broker keeps are looked for once a minute: {error}"
        );
    }
    AFTER_REFUSAL
}

async fn listen(
    context: &ServerContext,
    is_told: &mut bool,
    retry_backoff: &mut RetryBackoff,
) -> Result<Infallible, BrokerError> {
    let mut requests = context.answer(context.broker.cancellations()).await?;
    received(is_told);
    retry_backoff.on_success();
    context.signals.subscribed.notify();
    // A request is kept before it is published: one that was published before the subscription is seen by the look after it.
    let mut hears = pin!(hear(context, &mut *requests));
    tokio::select! {
        ended = &mut hears => ended,
        () = look_until_all_is_known(context) => hears.await,
    }
}

/// Passes on the requests that come.
async fn hear(context: &ServerContext, requests: &mut dyn Cancellations) -> Result<Infallible, BrokerError> {
    loop {
        let id = requests.next().await?;
        for queue in context.runs.cancel(&id) {
            log!(info, %id, %queue, "a cancel request came for this task");
        }
    }
}

/// Looks for kept requests until the broker has told of each run: a part of a cluster may be away.
async fn look_until_all_is_known(context: &ServerContext) {
    let mut retry_backoff = RetryBackoff::new("subscriber", LONGEST_PAUSE_OF_LOOKS);
    while let Err(error) = look(context).await {
        tokio::time::sleep(retry_backoff.on_error(&error)).await;
    }
}

/// Stops the runs here that were asked to stop while this server did not listen. Fails if the broker did not tell of each run.
async fn look(context: &ServerContext) -> Result<(), BrokerError> {
    let mut runs = context.runs.unended();
    runs.retain(|run| !run.stop.is_requested());
    if runs.is_empty() {
        return Ok(());
    }
    let keys: Vec<RunKey> = runs.iter().map(|run| run.attempt.key.clone()).collect();
    let asked = context.answers(context.broker.asked_to_cancel(&keys)).await?;
    let mut told = Ok(());
    for (run, is_asked) in runs.iter().zip(asked) {
        match is_asked {
            // It may have ended while the broker was asked.
            Ok(true) if run.is_unended() => {
                run.stop.stop(Why::Cancelled);
                let RunKey { id, queue, .. } = &run.attempt.key;
                log!(info, %id, %queue, "a cancel request came for this task while none was heard");
            }
            Ok(_) => {}
            Err(error) => told = told.and(Err(error)),
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use asynq_test_support::Log;

    use super::*;
    use crate::broker::BrokerErrorKind::{self, Config, Denied, Unavailable, Unexpected};

    #[test]
    fn the_end_of_a_refusal_is_logged_once_and_that_of_an_outage_is_not_taken_for_one() {
        let (log, mut is_told) = (Log::keep(), false);
        let mut retry_backoff = RetryBackoff::new("test", LONGEST_PAUSE);
        for (kind, lines) in [(Unavailable, 0), (Denied, 1)] {
            pause_after(&BrokerError::new(kind, "for a test"), &mut is_told, &mut retry_backoff);
            received(&mut is_told);
            received(&mut is_told);
            assert_eq!(log.with("cancel requests are received again").len(), lines, "{log:?}");
        }
    }

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
