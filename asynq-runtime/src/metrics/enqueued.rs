//! The metrics of enqueues.

use super::{labelled::Labelled, names};
use crate::{
    broker::{BrokerError, BrokerErrorKind},
    job::EnqueueError,
    task::TaskInfo,
};

static STORED: Labelled = Labelled::new(names::ENQUEUED, "type");

/// Counts the tasks of one call by their outcomes.
pub(crate) fn enqueued(outcomes: &[Result<TaskInfo, EnqueueError>]) {
    let mut outcomes = outcomes.iter().peekable();
    while let Some(outcome) = outcomes.next() {
        match outcome {
            Ok(info) => {
                // The tasks of one call are most often of one type.
                let mut n = 1;
                while outcomes.next_if(|next| next.as_ref().is_ok_and(|next| next.r#type == info.r#type)).is_some() {
                    n += 1;
                }
                STORED.count(&info.r#type, n);
            }
            Err(error) => failed(reason(error), 1),
        }
    }
}

/// Counts the tasks of a call that was not sent because the broker failed.
pub(crate) fn enqueue_failed(error: &BrokerError, tasks: usize) {
    failed(broker_reason(error), u64::try_from(tasks).unwrap_or(u64::MAX));
}

/// Counts a task that its client did not send.
pub(crate) fn not_enqueued(error: &EnqueueError) {
    failed(reason(error), 1);
}

fn failed(reason: &'static str, tasks: u64) {
    if tasks > 0 {
        names::describe_once();
        metrics::counter!(names::ENQUEUE_FAILURES, "reason" => reason).increment(tasks);
    }
}

/// Returns one word per error, for the label.
fn reason(error: &EnqueueError) -> &'static str {
    match error {
        EnqueueError::Broker(error) => broker_reason(error),
        EnqueueError::Duplicate { .. } => "duplicate",
        EnqueueError::IdConflict { .. } => "id_conflict",
        EnqueueError::Layer(_) => "layer",
        _ => "invalid",
    }
}

/// Returns `full` for a broker without room, which needs a person, and `broker` for any other failure of it.
fn broker_reason(error: &BrokerError) -> &'static str {
    if error.kind() == BrokerErrorKind::Full { "full" } else { "broker" }
}
