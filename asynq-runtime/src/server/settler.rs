//! Sends the outcomes of the outbox to the broker, one call at a time.

use std::{sync::Arc, time::Duration};

use super::{answer::no_answer, retry_backoff::RetryBackoff, server_context::ServerContext};
use crate::{
    broker::{BrokerError, Settled, Settlement},
    metrics,
};

/// Longest pause between two tries: an outage must not be felt long after it is over.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Sends outcomes until it is dropped.
pub(crate) async fn run(context: Arc<ServerContext>) {
    let mut retry_backoff = RetryBackoff::new("settler", LONGEST_PAUSE);
    loop {
        let batch = context.outbox.next().await;
        let answers = send(&context, &batch).await;
        match note(&context, &batch, answers) {
            None => retry_backoff.on_success(),
            Some(error) => tokio::time::sleep(retry_backoff.on_error(&error)).await,
        }
    }
}

/// Sends a batch. Returns one answer per outcome, also when the whole call failed.
async fn send(context: &ServerContext, batch: &[Settlement]) -> Vec<Result<Settled, BrokerError>> {
    let answers = context.answers(context.broker.settle(batch)).await;
    let mut answers = answers.unwrap_or_else(|error| vec![Err(error); batch.len()]);
    answers.resize_with(batch.len(), || Err(no_answer()));
    answers
}

/// Passes the answers to the outbox, and notifies the components that wait for the ends of tasks or for room. Returns the error of a
/// call that failed as a whole.
fn note(
    context: &ServerContext,
    batch: &[Settlement],
    answers: Vec<Result<Settled, BrokerError>>,
) -> Option<BrokerError> {
    let answered = batch.iter().zip(&answers).filter(|(_, answer)| answer.is_ok());
    // A run is forgotten before its outcome leaves the outbox: a leaving server waits for an empty outbox, and no run may be left then.
    context.runs.forget(answered.map(|(settlement, _)| &settlement.run));
    let answered = context.outbox.answered(answers);
    metrics::fenced(answered.lost);
    context.signals.settled.notify_by(answered.done);
    context.signals.lost.notify_by(answered.lost);
    if answered.is_empty {
        context.note_idle();
    }
    if answered.was_full {
        // The fetcher may be waiting for room in the outbox.
        context.runs.wake_fetcher();
    }
    answered.error
}
