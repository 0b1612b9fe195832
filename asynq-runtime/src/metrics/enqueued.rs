//! The metrics of enqueues.

use std::{collections::HashMap, sync::Arc};

use metrics::Counter;
use parking_lot::RwLock;

use super::{
    names,
    resolved::{METADATA, Resolved, key},
};
use crate::{
    broker::{BrokerError, BrokerErrorKind},
    job::EnqueueError,
    task::TaskInfo,
};

/// How many types that are enqueued have a label of their own.
pub const MOST_TYPES: usize = 1000;
/// The label of all further types.
pub const OTHER: &str = "other";

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
                stored(&info.r#type, n);
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

fn stored(r#type: &str, n: u64) {
    let named = of(r#type);
    let count = |recorder: &dyn metrics::Recorder| {
        recorder.register_counter(&key(names::ENQUEUED, "type", &named.name), &METADATA)
    };
    named.counter.get(count).increment(n);
}

#[derive(Debug)]
struct Enqueued {
    name: Arc<str>,
    counter: Resolved<Counter>,
}

/// Returns the counter of this type.
fn of(r#type: &str) -> Arc<Enqueued> {
    static ALL: RwLock<Option<HashMap<Arc<str>, Arc<Enqueued>>>> = RwLock::new(None);
    if let Some(known) = ALL.read().as_ref().and_then(|all| all.get(r#type)) {
        return Arc::clone(known);
    }
    let mut all = ALL.write();
    let all = all.get_or_insert_default();
    let name: Arc<str> = if all.len() < MOST_TYPES { r#type.into() } else { OTHER.into() };
    let fresh = || Arc::new(Enqueued { name: Arc::clone(&name), counter: Resolved::new() });
    Arc::clone(all.entry(Arc::clone(&name)).or_insert_with(fresh))
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
