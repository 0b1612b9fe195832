//! The tasks of the workloads: about 100 bytes of JSON, and a handler that only notes its run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use asynq_runtime::prelude::*;
use tokio::{
    sync::{Notify, mpsc},
    time::timeout,
};

/// A workload without progress for this long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Counts its run.
#[job(queue = "bench", codec = "json")]
pub(crate) async fn note(seen: State<Seen>, number: u64, to: String, subject: String, body: String) -> JobResult {
    let _ = (to, subject, body);
    seen.mark(number);
    Ok(())
}

/// Counts the runs of tasks that became one.
#[job(queue = "bench", codec = "json", aggregates = note)]
pub(crate) async fn notes(seen: State<Seen>, notes: Vec<note>) -> JobResult {
    notes.iter().for_each(|note| seen.mark(note.number));
    Ok(())
}

/// Returns task `number`, whose JSON has `bytes` bytes, or as few as there can be.
pub(crate) fn task(number: u64, bytes: usize) -> note {
    let mut task = note { number, to: "ann@example.com".into(), subject: "Hi".into(), body: String::new() };
    let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
    let frame = r#"{"number":,"to":"ann@example.com","subject":"Hi","body":""}"#.len() + digits;
    task.body = "x".repeat(bytes.saturating_sub(frame));
    task
}

/// The set of tasks that have run. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Seen(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    bits: Vec<AtomicU64>,
    /// Tasks that are waited for; below zero if more have run.
    missing: AtomicI64,
    again: AtomicU64,
    all: Notify,
}

impl Seen {
    /// Returns an empty set that waits for all of `n` tasks.
    pub(crate) fn none_of(n: u64) -> Self {
        Self::first(n, n)
    }

    /// Returns an empty set of `among` tasks that waits for any `n` of them.
    pub(crate) fn first(n: u64, among: u64) -> Self {
        let bits = (0..among.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let missing = AtomicI64::new(n.cast_signed());
        Self(Arc::new(Inner { bits, missing, again: AtomicU64::new(0), all: Notify::new() }))
    }

    /// Notes a run of task `number`.
    pub(crate) fn mark(&self, number: u64) {
        let bit = 1 << (number % 64);
        let word = usize::try_from(number / 64).ok().and_then(|at| self.0.bits.get(at));
        match word.map(|word| word.fetch_or(bit, Ordering::Relaxed) & bit) {
            Some(0) if self.0.missing.fetch_sub(1, Ordering::AcqRel) == 1 => self.0.all.notify_one(),
            Some(0) => {}
            _ => drop(self.0.again.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Waits until each task has run.
    ///
    /// # Errors
    ///
    /// No task ran within [`PATIENCE`], and some have not run.
    pub(crate) async fn all(&self) -> Result<(), BoxError> {
        loop {
            let before = self.missing();
            if before == 0 {
                return Ok(());
            }
            if timeout(PATIENCE, self.0.all.notified()).await.is_err() && self.missing() == before {
                return Err(format!("{before} tasks have not run").into());
            }
        }
    }

    /// Checks that each task has run once and only once.
    ///
    /// # Errors
    ///
    /// The error says how many have not.
    pub(crate) fn exactly_once(&self) -> Result<(), BoxError> {
        match (self.missing(), self.again()) {
            (0, 0) => Ok(()),
            (missing, again) => Err(format!("{missing} tasks have not run, {again} ran again").into()),
        }
    }

    fn missing(&self) -> u64 {
        self.0.missing.load(Ordering::Acquire).max(0).cast_unsigned()
    }

    /// Returns how many runs repeated a task that had run.
    fn again(&self) -> u64 {
        self.0.again.load(Ordering::Relaxed)
    }
}

/// Reports how long after `moment`, Unix nanoseconds, it started. Every process reads the clock of one machine.
#[job(queue = "bench", codec = "json", retry = 0)]
pub(crate) async fn stamp(starts: State<Starts>, number: u64, moment: u64) -> JobResult {
    starts.0.send((number, unix_nanos().cast_signed() - moment.cast_signed()))?;
    Ok(())
}

/// Returns the moment of its end, Unix nanoseconds.
#[job(queue = "bench", codec = "json", retry = 0)]
pub(crate) async fn finish() -> JobResult<u64> {
    Ok(unix_nanos())
}

/// The channel on which starts are reported: number of the task, nanoseconds after its moment.
#[derive(Debug)]
pub(crate) struct Starts(pub(crate) mpsc::UnboundedSender<(u64, i64)>);

/// Returns the next start.
///
/// # Errors
///
/// No task started within [`PATIENCE`].
pub(crate) async fn next_start(starts: &mut mpsc::UnboundedReceiver<(u64, i64)>) -> Result<(u64, i64), BoxError> {
    timeout(PATIENCE, starts.recv()).await.ok().flatten().ok_or_else(|| "a task did not start".into())
}

/// Returns the Unix nanoseconds of now.
pub(crate) fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
