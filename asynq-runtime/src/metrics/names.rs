//! The names of the metrics, and their descriptions for the recorder.

use std::sync::atomic::{AtomicUsize, Ordering};

use metrics::{KeyName, Recorder, SharedString, Unit};

pub(super) const RUN: &str = "asynq_job_run_seconds";
pub(super) const WAIT: &str = "asynq_job_wait_seconds";
pub(super) const OUTCOMES: &str = "asynq_job_outcomes_total";
pub(super) const IN_FLIGHT: &str = "asynq_job_in_flight";
pub(super) const STUCK: &str = "asynq_job_stuck";
pub(super) const OUTBOX: &str = "asynq_outbox_length";
pub(super) const FENCED: &str = "asynq_outcomes_fenced_total";
pub(super) const LEASES_LOST: &str = "asynq_leases_lost_total";
pub(super) const ARCHIVE_DROPPED: &str = "asynq_archive_dropped_total";
pub(super) const LEADER: &str = "asynq_leader";
pub(super) const TICKS: &str = "asynq_ticks_total";
pub(super) const TICK_LATENESS: &str = "asynq_tick_lateness_seconds";
pub(super) const LAST_TICK: &str = "asynq_last_tick_timestamp_seconds";
pub(super) const ENQUEUED: &str = "asynq_enqueued_total";
pub(super) const ENQUEUE_FAILURES: &str = "asynq_enqueue_failures_total";
pub(super) const BROKER_ERRORS: &str = "asynq_broker_errors_total";

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

/// Returns every metric of this crate.
pub fn described() -> &'static [Described] {
    &[
        Described {
            name: RUN,
            kind: Kind::Histogram,
            labels: &["type"],
            help: "Time that an attempt ran, whatever became of it.",
        },
        Described {
            name: WAIT,
            kind: Kind::Histogram,
            labels: &["type"],
            help: "Time that a task was pending before the attempt started.",
        },
        Described {
            name: OUTCOMES,
            kind: Kind::Counter,
            labels: &["type", "outcome"],
            help: "Attempts that ended, by what becomes of the task: done, revoked, retry, deferred, archived or requeued.",
        },
        Described { name: IN_FLIGHT, kind: Kind::Gauge, labels: &["type"], help: "Attempts under way." },
        Described {
            name: STUCK,
            kind: Kind::Gauge,
            labels: &["type"],
            help: "Blocking jobs whose time was over 5 s ago and whose threads have not returned.",
        },
        Described {
            name: OUTBOX,
            kind: Kind::Gauge,
            labels: &[],
            help: "Outcomes of attempts that the broker has not taken yet.",
        },
        Described {
            name: FENCED,
            kind: Kind::Counter,
            labels: &[],
            help: "Outcomes that came too late: the task had been given to another worker, or was gone.",
        },
        Described {
            name: LEASES_LOST,
            kind: Kind::Counter,
            labels: &[],
            help: "Attempts that were stopped because the task was not this worker's any more.",
        },
        Described {
            name: ARCHIVE_DROPPED,
            kind: Kind::Counter,
            labels: &["queue"],
            help: "Archived tasks that were deleted because their archive was full.",
        },
        Described {
            name: LEADER,
            kind: Kind::Gauge,
            labels: &[],
            help: "Schedulers of this program that lead; one in the whole fleet does.",
        },
        Described {
            name: TICKS,
            kind: Kind::Counter,
            labels: &["type", "outcome"],
            help: "Ticks of periodic jobs: enqueued, duplicate, skipped, refused, paused, missed or invalid.",
        },
        Described {
            name: TICK_LATENESS,
            kind: Kind::Histogram,
            labels: &["type"],
            help: "Time from a tick of a periodic job to the moment at which the broker decided on it.",
        },
        Described {
            name: LAST_TICK,
            kind: Kind::Gauge,
            labels: &["type"],
            help: "Unix time of the last tick of a periodic job, or of the moment in which it became known or its schedule changed.",
        },
        Described { name: ENQUEUED, kind: Kind::Counter, labels: &["type"], help: "Tasks that were enqueued." },
        Described {
            name: ENQUEUE_FAILURES,
            kind: Kind::Counter,
            labels: &["reason"],
            help: "Tasks that were not enqueued: invalid, duplicate, id_conflict or broker.",
        },
        Described {
            name: BROKER_ERRORS,
            kind: Kind::Counter,
            labels: &["component", "kind"],
            help: "Calls to the broker that failed, by the component of the worker that made them.",
        },
    ]
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
    for Described { name, kind, help, .. } in described() {
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
