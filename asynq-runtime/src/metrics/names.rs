//! The names of the metrics, and their descriptions for the recorder.

use std::sync::atomic::{AtomicUsize, Ordering};

use metrics::{KeyName, Recorder, SharedString, Unit};

/// The description of one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Described {
    /// Name of the metric.
    pub name: &'static str,
    /// Kind of the metric.
    pub kind: Kind,
    /// Labels of the metric.
    pub labels: &'static [&'static str],
    /// Meaning of the metric.
    pub help: &'static str,
}

impl Described {
    /// Returns whether the metric is a counter without labels: its one series is known before the first event.
    pub(super) fn is_shown_at_zero(&self) -> bool {
        self.kind == Kind::Counter && self.labels.is_empty()
    }
}

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A value that only grows.
    Counter,
    /// A value that goes up and down.
    Gauge,
    /// Counts values by their size, in seconds.
    Histogram,
}

/// Declares each metric once: the constant of its name, and its entry in `ALL`.
macro_rules! declare {
    ($($constant:ident, $name:literal, $kind:ident, [$($label:literal),*], $help:literal;)*) => {
        $(pub(super) const $constant: &str = $name;)*

        const ALL: &[Described] =
            &[$(Described { name: $constant, kind: Kind::$kind, labels: &[$($label),*], help: $help }),*];
    };
}

declare! {
    RUN, "asynq_job_run_seconds", Histogram, ["type"],
        "Time that an attempt ran, whatever became of it.";
    WAIT, "asynq_job_wait_seconds", Histogram, ["type"],
        "Time that a task was pending before the attempt started.";
    OUTCOMES, "asynq_job_outcomes_total", Counter, ["type", "outcome"],
        "Attempts that ended, by what becomes of the task: done, revoked, retry, deferred, archived or requeued.";
    IN_FLIGHT, "asynq_job_in_flight", Gauge, ["type"],
        "Attempts under way.";
    STUCK, "asynq_job_stuck", Gauge, ["type"],
        "Blocking jobs whose threads have not returned 5 s after they were asked to stop: by a timeout, a cancellation or a lost lease.";
    OUTBOX, "asynq_outbox_length", Gauge, [],
        "Outcomes of attempts that the broker has not taken yet.";
    FENCED, "asynq_outcomes_fenced_total", Counter, [],
        "Outcomes that came too late: the task had been given to another worker, or was gone.";
    LEASES_LOST, "asynq_leases_lost_total", Counter, [],
        "Attempts that were stopped because the task was not this worker's any more.";
    ARCHIVE_DROPPED, "asynq_archive_dropped_total", Counter, ["queue"],
        "Archived tasks that were deleted because their archive was full.";
    AGGREGATIONS, "asynq_aggregations_total", Counter, ["outcome"],
        "Sets of tasks of groups, by what became of them: done, failed or unknown.";
    LEADER, "asynq_leader", Gauge, [],
        "Schedulers of this program that lead: one of all its copies does, unless it has no election.";
    TICKS, "asynq_ticks_total", Counter, ["type", "outcome"],
        "Ticks of periodic jobs: enqueued, duplicate, skipped, refused, paused, missed or invalid.";
    TICK_LATENESS, "asynq_tick_lateness_seconds", Histogram, ["type"],
        "Time from a tick of a periodic job to the moment at which the broker decided on it.";
    LAST_TICK, "asynq_last_tick_timestamp_seconds", Gauge, ["type"],
        "Unix time of the last tick of a periodic job, or of the moment in which it became known or its schedule changed.";
    ENQUEUED, "asynq_enqueued_total", Counter, ["type"],
        "Tasks that were enqueued.";
    ENQUEUE_FAILURES, "asynq_enqueue_failures_total", Counter, ["reason"],
        "Tasks that were not enqueued: invalid, duplicate, id_conflict, layer, full or broker.";
    BROKER_ERRORS, "asynq_broker_errors_total", Counter, ["component", "kind"],
        "Calls to the broker that failed, by the component of the worker, or the scheduler, that made them.";
}

/// Returns every metric of this crate.
pub fn described() -> &'static [Described] {
    ALL
}

/// Address of the recorder that was given the descriptions last.
static DESCRIBED_TO: AtomicUsize = AtomicUsize::new(0);

/// Describes all metrics to the current recorder, unless it was the last one that was given the descriptions.
pub(super) fn describe_once() {
    metrics::with_recorder(describe_to);
}

/// Describes all metrics to `recorder`, unless it was the last one that was given the descriptions.
pub(super) fn describe_to(recorder: &dyn Recorder) {
    if DESCRIBED_TO.swap(place(recorder), Ordering::Relaxed) == place(recorder) {
        return;
    }
    for Described { name, kind, help, .. } in ALL {
        let (name, help) = (KeyName::from_const_str(name), SharedString::const_str(help));
        match kind {
            Kind::Counter => recorder.describe_counter(name, Some(Unit::Count), help),
            Kind::Gauge => recorder.describe_gauge(name, Some(Unit::Count), help),
            Kind::Histogram => recorder.describe_histogram(name, Some(Unit::Seconds), help),
        }
    }
}

/// Returns the address of a recorder, which tells recorders apart: a program has one, never freed, and before it the no-op one.
pub(super) fn place(recorder: &dyn Recorder) -> usize {
    (recorder as *const dyn Recorder).addr()
}
