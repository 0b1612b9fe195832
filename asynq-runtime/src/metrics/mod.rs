//! What this program counts and measures, by the [`metrics`](https://docs.rs/metrics) facade.
//!
//! A program that installs a recorder, or serves `/metrics` by asynq-dashboard, gets these; one that does not pays for a
//! few atomic operations per task. They are this process's own view; what a broker knows about its queues comes from the
//! [inspector](crate::inspector). [`described`] lists them all.
//!
//! The label `type` is the name of a job, or the pattern of a handler. A task that nothing here knows is counted as
//! [`UNKNOWN`], and of types that are enqueued the first [`MOST_TYPES`] have a label of their own and all others
//! [`OTHER`]: a producer cannot fill the recorder.
//!
//! Histograms are in seconds. A recorder may be installed at any time: what is counted from then on is in it.

mod enqueued;
mod job;
mod names;
mod resolved;
mod ticks;
mod total;

pub(crate) use self::{
    enqueued::enqueued,
    job::{AttemptMetrics, JobMetrics, JobMetricsMap, Outcome},
    total::OUTBOX,
};
pub use self::{
    enqueued::{MOST_TYPES, OTHER},
    job::UNKNOWN,
    names::{Described, Kind, described},
};
/// What asynq-cron counts with.
#[doc(hidden)]
pub use self::{
    ticks::{TickOutcome, last_tick, tick_lateness, ticks},
    total::{Share, leader},
};
use crate::broker::BrokerErrorKind;

/// A component of a server met an error of the broker.
pub(crate) fn broker_failed(component: &'static str, kind: BrokerErrorKind) {
    names::describe_once();
    metrics::counter!(names::BROKER_ERRORS, "component" => component, "kind" => kind_name(kind)).increment(1);
}

/// Outcomes came too late: another server has the tasks, or they are gone.
pub(crate) fn fenced(outcomes: u64) {
    if outcomes > 0 {
        names::describe_once();
        metrics::counter!(names::FENCED).increment(outcomes);
    }
}

/// The broker said of a run that is going on that it is not ours any more.
pub(crate) fn lease_lost() {
    names::describe_once();
    metrics::counter!(names::LEASES_LOST).increment(1);
}

/// Archived tasks were deleted because there were more than the archive of their queue keeps.
pub(crate) fn archive_dropped(queue: &str, tasks: u64) {
    names::describe_once();
    metrics::counter!(names::ARCHIVE_DROPPED, "queue" => queue.to_owned()).increment(tasks);
}

/// Tells a recorder that was installed meanwhile what does not change often.
pub(crate) fn refresh() {
    names::describe_once();
    for counter in [names::FENCED, names::LEASES_LOST] {
        metrics::counter!(counter).increment(0);
    }
    total::show_all();
}

/// One word per kind, for the label.
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
        BrokerErrorKind::Unexpected => "unexpected",
    }
}

#[cfg(test)]
mod tests;
