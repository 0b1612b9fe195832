//! The metrics of attempts, per job type.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use metrics::{Counter, Gauge, Histogram, Key, Label, Recorder};
use parking_lot::Mutex;

use super::{
    names,
    resolved::{METADATA, Resolved, key},
};
use crate::broker::Action;

/// The label of tasks whose type no job or handler here has.
const UNKNOWN: &str = "unknown";

/// The outcome of an attempt, as one word for the label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Revoked,
    Retry,
    Deferred,
    Archived,
    Requeued,
}

impl Outcome {
    const ALL: [Self; 6] = [Self::Done, Self::Revoked, Self::Retry, Self::Deferred, Self::Archived, Self::Requeued];

    /// Returns the outcome that an action means; a broker knows no difference between a success and a revoked task.
    pub(crate) fn of(action: &Action, is_revoked: bool) -> Self {
        match action {
            Action::Revoke { .. } => Self::Revoked,
            Action::Done | Action::Complete { .. } if is_revoked => Self::Revoked,
            Action::Done | Action::Complete { .. } => Self::Done,
            Action::Retry { counted: true, .. } => Self::Retry,
            Action::Retry { counted: false, .. } | Action::Defer { .. } => Self::Deferred,
            Action::Archive { .. } => Self::Archived,
            Action::Requeue => Self::Requeued,
        }
    }

    /// Returns the word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Revoked => "revoked",
            Self::Retry => "retry",
            Self::Deferred => "deferred",
            Self::Archived => "archived",
            Self::Requeued => "requeued",
        }
    }
}

/// The metrics of every type that a server runs, found by a task's type without a lock.
#[derive(Debug)]
pub(crate) struct JobMetricsMap {
    known: HashMap<Box<str>, Arc<JobMetrics>>,
    /// The metrics of unknown types.
    pub(crate) unknown: Arc<JobMetrics>,
}

impl JobMetricsMap {
    /// Returns the metrics of these names and of unknown types.
    pub(crate) fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let named = |name: &str| (name.into(), JobMetrics::of(name));
        Self { known: names.into_iter().map(named).collect(), unknown: JobMetrics::of(UNKNOWN) }
    }

    /// Returns the metrics of `name`, if it is one of the names.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<JobMetrics>> {
        self.known.get(name)
    }
}

/// The metrics of one type.
#[derive(Debug)]
pub(crate) struct JobMetrics {
    name: Arc<str>,
    in_flight: AtomicI64,
    stuck: AtomicI64,
    handles: Resolved<Handles>,
}

#[derive(Debug)]
struct Handles {
    run: Histogram,
    wait: Histogram,
    in_flight: Gauge,
    stuck: Gauge,
    outcomes: [Counter; Outcome::ALL.len()],
}

impl JobMetrics {
    /// Returns the metrics of this type, which all servers of the program share because they share the gauge.
    fn of(name: &str) -> Arc<Self> {
        let mut all = ALL.lock();
        if let Some(known) = all.get(name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        let fresh = Self {
            name: Arc::clone(&name),
            in_flight: AtomicI64::new(0),
            stuck: AtomicI64::new(0),
            handles: Resolved::new(),
        };
        Arc::clone(all.entry(name).or_insert(Arc::new(fresh)))
    }

    /// Begins an attempt at a task that had been waiting for so long.
    pub(crate) fn begin(self: &Arc<Self>, waited: Option<Duration>) -> AttemptMetrics {
        let handles = self.handles();
        if let Some(waited) = waited {
            handles.wait.record(waited.as_secs_f64());
        }
        self.count(&handles, 1);
        AttemptMetrics { job: Arc::clone(self), started: OnceLock::new() }
    }

    /// Returns the handles of the recorder of this moment: an attempt may have begun before there was one.
    fn handles(&self) -> Arc<Handles> {
        self.handles.get(|recorder| {
            let handles = Handles::of(&self.name, recorder);
            // A job of which no thread was ever stuck has the gauge too.
            add(&self.stuck, 0, &handles.stuck);
            handles
        })
    }

    /// Adds to what is under way, and shows it.
    fn count(&self, handles: &Handles, by: i64) {
        add(&self.in_flight, by, &handles.in_flight);
    }

    fn count_stuck(&self, by: i64) {
        add(&self.stuck, by, &self.handles().stuck);
    }
}

/// The metrics of all types of this program.
static ALL: Mutex<BTreeMap<Arc<str>, Arc<JobMetrics>>> = Mutex::new(BTreeMap::new());

/// Shows what is under way, also to a recorder that was installed after it had begun.
pub(super) fn show_all() {
    let is_some = |number: &AtomicI64| number.load(Ordering::Relaxed) != 0;
    let is_under_way = |job: &&Arc<JobMetrics>| is_some(&job.in_flight) || is_some(&job.stuck);
    let under_way: Vec<_> = ALL.lock().values().filter(is_under_way).cloned().collect();
    under_way.iter().for_each(|job| job.count(&job.handles(), 0));
}

/// Adds to a number and shows it. Of two threads that do so at once, the one that shows last may have the older number: it looks
/// again.
pub(super) fn add(number: &AtomicI64, by: i64, gauge: &Gauge) {
    let mut shown = number.fetch_add(by, Ordering::SeqCst) + by;
    loop {
        gauge.set(shown as f64);
        // Unlike a load, a change is not made before the gauge is set.
        let now = number.fetch_add(0, Ordering::SeqCst);
        if now == shown {
            return;
        }
        shown = now;
    }
}

impl Handles {
    fn of(name: &Arc<str>, recorder: &dyn Recorder) -> Self {
        let outcome = |outcome: Outcome| {
            let labels = vec![Label::new("type", Arc::clone(name)), Label::new("outcome", outcome.as_str())];
            recorder.register_counter(&Key::from_parts(names::OUTCOMES, labels), &METADATA)
        };
        Self {
            run: recorder.register_histogram(&key(names::RUN, "type", name), &METADATA),
            wait: recorder.register_histogram(&key(names::WAIT, "type", name), &METADATA),
            in_flight: recorder.register_gauge(&key(names::IN_FLIGHT, "type", name), &METADATA),
            stuck: recorder.register_gauge(&key(names::STUCK, "type", name), &METADATA),
            outcomes: Outcome::ALL.map(outcome),
        }
    }
}

/// An attempt under way. A drop without [`end`](Self::end) only takes it out of the gauge.
#[derive(Debug)]
pub(crate) struct AttemptMetrics {
    job: Arc<JobMetrics>,
    started: OnceLock<Instant>,
}

impl AttemptMetrics {
    /// Notes that the job itself starts: its time counts from the returned instant on.
    pub(crate) fn start(&self) -> Instant {
        *self.started.get_or_init(Instant::now)
    }

    /// Counts the outcome of the attempt, and how long it took if its job `ran`: it may have waited for a thread, or been unknown.
    pub(crate) fn end(self, outcome: Outcome, ran: bool) {
        let handles = self.job.handles();
        if let Some(started) = self.started.get().filter(|_| ran) {
            handles.run.record(started.elapsed().as_secs_f64());
        }
        handles.outcomes[outcome as usize].increment(1);
    }

    /// Counts the attempt as stuck, because its thread goes on although it was asked to stop, until the returned value is dropped.
    pub(crate) fn stuck(&self) -> Stuck {
        self.job.count_stuck(1);
        Stuck(Arc::clone(&self.job))
    }
}

/// A blocking job that was asked to stop and whose thread has not returned.
#[derive(Debug)]
pub(crate) struct Stuck(Arc<JobMetrics>);

impl Drop for Stuck {
    fn drop(&mut self) {
        self.0.count_stuck(-1);
    }
}

impl Drop for AttemptMetrics {
    fn drop(&mut self) {
        self.job.count(&self.job.handles(), -1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use metrics::atomics::AtomicU64;

    use super::*;

    #[test]
    fn of_two_attempts_that_end_at_once_none_stays_in_the_gauge() {
        let (number, bits, barrier) = (AtomicI64::new(0), Arc::new(AtomicU64::new(0)), Barrier::new(2));
        let gauge = Gauge::from_arc(Arc::clone(&bits));
        let end = || {
            for _ in 0..3_000 {
                add(&number, 1, &gauge);
                barrier.wait();
                add(&number, -1, &gauge);
                barrier.wait();
                assert_eq!(f64::from_bits(bits.load(Ordering::SeqCst)), 0.0);
                barrier.wait();
            }
        };
        std::thread::scope(|threads| {
            threads.spawn(end);
            end();
        });
    }
}
