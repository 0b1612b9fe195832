//! The metrics of this program, by the [`metrics`](https://docs.rs/metrics) facade.
//!
//! A program that installs a recorder, or serves `/metrics` by asynq-dashboard, gets these metrics; for any other program they
//! cost a few atomic operations per task. They are this process's own view; the facts that a broker has about its queues come
//! from the [inspector](crate::inspector). [`described`] lists all metrics.
//!
//! The label `type` is the name of a job, or the pattern of a handler. A task of an unknown type is counted as `unknown`. Of
//! the types that are enqueued, and of the queues with a full archive, the first 1,000 have a label of their own and all others `other`:
//! a producer cannot fill the recorder.
//!
//! Histograms are in seconds. A recorder may be installed at any time: it has all values that are recorded from then on.

mod enqueued;
mod job;
mod labelled;
mod names;
mod resolved;
mod ticks;
mod total;

pub use self::names::{Described, Kind, described};
pub(crate) use self::{
    enqueued::{enqueue_failed, enqueued, not_enqueued},
    job::{AttemptMetrics, JobMetrics, JobMetricsMap, Outcome},
    total::OUTBOX,
};
/// The metrics of asynq-cron.
#[doc(hidden)]
pub use self::{
    ticks::{TickOutcome, last_tick, tick_lateness, ticks},
    total::{Share, leader},
};
use crate::broker::BrokerErrorKind;

/// Counts an error of the broker in a component of a server, or in a scheduler.
#[doc(hidden)]
pub fn broker_failed(component: &'static str, kind: BrokerErrorKind) {
    names::describe_once();
    metrics::counter!(names::BROKER_ERRORS, "component" => component, "kind" => kind_name(kind)).increment(1);
}

/// Counts outcomes that came too late: another server has the tasks, or they are gone.
pub(crate) fn fenced(outcomes: u64) {
    if outcomes > 0 {
        metrics::counter!(names::FENCED).increment(outcomes);
    }
}

/// Counts a run that had lost its lease while it was going on.
pub(crate) fn lease_lost() {
    metrics::counter!(names::LEASES_LOST).increment(1);
}

/// Counts archived tasks that were deleted because there were more than the archive of their queue keeps.
pub(crate) fn archive_dropped(queue: &str, tasks: u64) {
    // The names of queues that match a pattern come from outside.
    static DROPPED: labelled::Labelled = labelled::Labelled::new(names::ARCHIVE_DROPPED, "queue");
    DROPPED.count(queue, tasks);
}

/// Counts a set of a group that was aggregated, or was not.
pub(crate) fn aggregated(outcome: &'static str) {
    metrics::counter!(names::AGGREGATIONS, "outcome" => outcome).increment(1);
}

/// Describes all metrics to a recorder that was installed meanwhile, and shows it those that change rarely and what is under way. A
/// server calls this at each beat, so the functions above that count what only a server does describe nothing.
pub(crate) fn refresh() {
    names::describe_once();
    // An alert sees the growth of a counter from its first event on if it began at zero.
    for Described { name, .. } in described().iter().filter(|metric| metric.is_shown_at_zero()) {
        metrics::counter!(*name).increment(0);
    }
    total::show_all();
    job::show_all();
}

/// Returns one word per kind, for the label.
fn kind_name(kind: BrokerErrorKind) -> &'static str {
    match kind {
        BrokerErrorKind::Unavailable => "unavailable",
        BrokerErrorKind::Timeout => "timeout",
        BrokerErrorKind::Full => "full",
        BrokerErrorKind::Unconfirmed => "unconfirmed",
        BrokerErrorKind::Denied => "denied",
        BrokerErrorKind::Config => "config",
        BrokerErrorKind::Corrupt => "corrupt",
        BrokerErrorKind::Closed => "closed",
        BrokerErrorKind::RunEnded => "run_ended",
        BrokerErrorKind::Unexpected => "unexpected",
    }
}

#[cfg(test)]
mod tests;
